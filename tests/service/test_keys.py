"""Managing keys and grants, and the first key (CONTRACT section 9)."""

import os
import stat
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection
from tests.service.services import Service
from tests.store.commands import ANN, BOB
from tests.store.databases import START, Store
from tests.store.stages import away

from askd.domain.errors import AskdError, Code
from askd.domain.principals import Caller, Grant, Principal, PrincipalKind, Role
from askd.service.keys import insert_admin_key, insert_first_key
from askd.store import keys as rows
from askd.store.database import Database

EVERYWHERE = Grant(role=Role.ADMIN, workspace_id="*")
ADMIN = Caller(principal=ANN, grants=frozenset({EVERYWHERE}))
OF_W = Caller(principal=BOB, grants=frozenset({Grant(role=Role.ADMIN, workspace_id="w")}))
OF_W_AND_V = Caller(principal=BOB, grants=OF_W.grants | {Grant(role=Role.ADMIN, workspace_id="v")})
OF_A_SESSION = Caller(principal=BOB, grants=frozenset({Grant(role=Role.ADMIN, workspace_id="w", session_id="s")}))
ASKER = Caller(principal=BOB, grants=frozenset({Grant(role=Role.ASKER, workspace_id="*")}))
USER = Principal(kind=PrincipalKind.USER, id="ann")

IN_W = Grant(role=Role.ASKER, workspace_id="w")
IN_V = Grant(role=Role.ASKER, workspace_id="v")
IN_S = Grant(role=Role.VIEWER, workspace_id="w", session_id="s")


async def refusal(call: Awaitable[object]) -> AskdError:
    with pytest.raises(AskdError) as refused:
        await call
    return refused.value


def making(service: Service, caller: Caller, *grants: Grant, name: str = "a key") -> Awaitable[object]:
    return service.keys.create(caller, name, frozenset(grants), None)


async def made(service: Service, *grants: Grant) -> str:
    """The id of a new key."""
    key, _ = await service.keys.create(ADMIN, "a key", frozenset(grants), None)
    return key.id


# --- whose keys are whose to manage ---


async def test_an_admin_of_all_workspaces_makes_any_key(service: Service) -> None:
    for grants in [(EVERYWHERE,), (IN_W, IN_V, IN_S), ()]:
        key, _ = await service.keys.create(ADMIN, "a key", frozenset(grants), 10)
        assert (key.grants, key.created_at, key.expires_at) == (frozenset(grants), START, START + 10)


@pytest.mark.parametrize("caller", [OF_W, OF_W_AND_V], ids=["of one workspace", "of two"])
async def test_an_admin_of_workspaces_makes_keys_wholly_inside_them(service: Service, caller: Caller) -> None:
    await making(service, caller, IN_W, IN_S, Grant(role=Role.ADMIN, workspace_id="w"))
    beyond = [
        [EVERYWHERE],
        [IN_W, Grant(role=Role.ASKER, workspace_id="u")],
        [Grant(role=Role.ASKER, workspace_id="*")],
    ]
    for grants in [*beyond, []]:
        assert (await refusal(making(service, caller, *grants))).code is Code.PERMISSION_DENIED
    assert len(await service.keys.list_keys(ADMIN)) == 1


async def test_an_admin_of_workspaces_sees_the_keys_wholly_inside_them(service: Service) -> None:
    inside, also = await made(service, IN_W), await made(service, IN_W, IN_S)
    for grants in [(IN_V,), (IN_W, IN_V), (EVERYWHERE,), ()]:
        await made(service, *grants)
    assert [key.id for key in await service.keys.list_keys(OF_W)] == [inside, also]
    assert len(await service.keys.list_keys(OF_W_AND_V)) == 4
    assert len(await service.keys.list_keys(ADMIN)) == 6


@pytest.mark.parametrize("grants", [[IN_V], [IN_W, IN_V], [EVERYWHERE], []], ids=str)
async def test_a_key_beyond_an_admin_s_workspaces_is_not_found_and_stays(service: Service, grants: list[Grant]) -> None:
    key_id = await made(service, *grants)
    refused = await refusal(service.keys.revoke(OF_W, key_id))
    unknown = await refusal(service.keys.revoke(OF_W, "key_unknown"))
    assert refused.code is unknown.code is Code.NOT_FOUND
    assert refused.resource == ("key", key_id)
    assert (await service.keys.list_keys(ADMIN))[0].revoked_at is None


async def test_an_admin_of_a_workspace_revokes_keys_inside_it(service: Service) -> None:
    key_id = await made(service, IN_W)
    revoked = await service.keys.revoke(OF_W, key_id)
    service.clock.advance(1)
    assert await service.keys.revoke(OF_W, key_id) == revoked  # again, it changes nothing
    assert revoked.revoked_at == START


@pytest.mark.parametrize("caller", [OF_A_SESSION, ASKER], ids=["admin of a session", "asker"])
async def test_who_is_no_admin_of_a_workspace_manages_nothing(service: Service, caller: Caller) -> None:
    key_id = await made(service, IN_S)
    calls: list[Awaitable[object]] = [
        making(service, caller, IN_S),
        service.keys.list_keys(caller),
        service.keys.revoke(caller, key_id),
        service.keys.grant(caller, USER, IN_S),
        service.keys.ungrant(caller, USER, IN_S),
        service.keys.list_grants(caller, USER),
    ]
    for call in calls:
        assert (await refusal(call)).code is Code.PERMISSION_DENIED


# --- grants ---


async def test_grants_are_given_to_users_and_keys_and_taken(service: Service) -> None:
    key_id = await made(service)
    for principal in (USER, Principal(kind=PrincipalKind.API_KEY, id=key_id)):
        for grant in (IN_W, IN_S, IN_W):
            await service.keys.grant(ADMIN, principal, grant)
        assert set(await service.keys.list_grants(ADMIN, principal)) == {IN_W, IN_S}
        for _ in range(2):
            await service.keys.ungrant(ADMIN, principal, IN_W)
        assert await service.keys.list_grants(ADMIN, principal) == [IN_S]


async def test_an_admin_of_a_workspace_manages_the_grants_inside_it_and_sees_no_others(service: Service) -> None:
    for grant in (IN_W, IN_V, EVERYWHERE):
        await service.keys.grant(ADMIN, USER, grant)
    assert await service.keys.list_grants(OF_W, USER) == [IN_W]
    for grant in (IN_V, EVERYWHERE, Grant(role=Role.ASKER, workspace_id="*")):
        assert (await refusal(service.keys.grant(OF_W, USER, grant))).code is Code.PERMISSION_DENIED
        assert (await refusal(service.keys.ungrant(OF_W, USER, grant))).code is Code.PERMISSION_DENIED
    await service.keys.grant(OF_W, USER, IN_S)
    await service.keys.ungrant(OF_W, USER, IN_W)
    assert set(await service.keys.list_grants(ADMIN, USER)) == {IN_S, IN_V, EVERYWHERE}


async def test_a_key_that_does_not_exist_is_given_nothing(service: Service) -> None:
    unknown = Principal(kind=PrincipalKind.API_KEY, id="key_unknown")
    assert (await refusal(service.keys.grant(ADMIN, unknown, IN_W))).code is Code.NOT_FOUND
    assert await service.keys.list_grants(ADMIN, unknown) == []


# --- limits ---


async def test_a_name_has_256_bytes(service: Service) -> None:
    for name in ("", "x" * 256, "é" * 128, "\x00"):
        key, _ = await service.keys.create(ADMIN, name, frozenset(), None)
        assert key.name == name
    for name in ("x" * 257, "é" * 128 + "x"):
        refused = await refusal(making(service, ADMIN, name=name))
        assert (refused.code, refused.field) == (Code.INVALID_ARGUMENTS, "name")


async def test_a_principal_has_64_grants(service: Service) -> None:
    grants = [Grant(role=Role.ASKER, workspace_id=f"workspace {number}") for number in range(65)]
    key_id = await made(service, *grants[:64])
    assert (await refusal(making(service, ADMIN, *grants))).code is Code.INVALID_ARGUMENTS
    principal = Principal(kind=PrincipalKind.API_KEY, id=key_id)
    await service.keys.grant(ADMIN, principal, grants[0])  # which it has
    assert (await refusal(service.keys.grant(ADMIN, principal, grants[64]))).code is Code.INVALID_ARGUMENTS
    assert len(await service.keys.list_grants(ADMIN, principal)) == 64


@pytest.mark.parametrize("name", ["", " ", "x" * 129, "a\x00", "a\nb", "\u2003"], ids=repr)
async def test_a_grant_names_a_workspace_and_a_session_as_they_may_be_named(service: Service, name: str) -> None:
    wrong = [Grant(role=Role.ASKER, workspace_id=name)]
    if name:
        wrong.append(Grant(role=Role.ASKER, workspace_id="w", session_id=name))
    for grant in wrong:
        assert (await refusal(making(service, ADMIN, grant))).code is Code.INVALID_ARGUMENTS
        assert (await refusal(service.keys.grant(ADMIN, USER, grant))).code is Code.INVALID_ARGUMENTS


# --- faults ---


async def test_a_database_that_is_away_is_unavailable(service: Service) -> None:
    key_id = await made(service, IN_W)
    service.stage.failure = away()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: making(service, ADMIN),
        lambda: service.keys.list_keys(ADMIN),
        lambda: service.keys.revoke(ADMIN, key_id),
        lambda: service.keys.grant(ADMIN, USER, IN_W),
        lambda: service.keys.ungrant(ADMIN, USER, IN_W),
        lambda: service.keys.list_grants(ADMIN, USER),
    ]
    for call in calls:
        refused = await refusal(call())
        assert refused.code is Code.UNAVAILABLE
        assert "SECRET" not in str(refused)
    service.stage.failure = None
    assert (await service.keys.list_keys(ADMIN))[0].revoked_at is None


async def test_a_revocation_whose_answer_was_lost_counts(service: Service) -> None:
    """The caller was told that the database is away, yet the key is revoked, and this server must not trust it."""
    key, credential = await service.keys.create(ADMIN, "a key", frozenset({IN_W}), None)
    await service.authority.authenticate(credential)
    service.stage.lost_answers = {service.stage.writes + 1}
    assert (await refusal(service.keys.revoke(ADMIN, key.id))).code is Code.UNAVAILABLE
    refused = await refusal(service.authority.authenticate(credential))
    assert refused.code is Code.UNAUTHENTICATED


# --- the first key ---


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the first key's credential is written."""
    return tmp_path / "admin.key"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def credential_in(path: Path) -> str:
    return path.read_text().removesuffix("\n")


async def first_key(database: Database, file: Path) -> bool:
    return await database.write(partial(insert_first_key, path=file, now=START))


async def test_an_empty_database_gets_a_first_key_that_is_admin_everywhere(service: Service, file: Path) -> None:
    assert await first_key(service.stage, file)
    caller = await service.authority.authenticate(credential_in(file))
    assert caller.grants == {EVERYWHERE}
    assert caller.expires_at is None


async def test_a_database_that_ever_had_a_key_gets_no_other_first_key(service: Service, file: Path) -> None:
    await first_key(service.stage, file)
    (key,) = await service.keys.list_keys(ADMIN)
    await service.keys.revoke(ADMIN, key.id)
    before = credential_in(file)
    assert not await first_key(service.stage, file)
    assert credential_in(file) == before
    assert len(await service.keys.list_keys(ADMIN)) == 1


async def test_the_first_key_s_file_is_its_owner_s_alone_whatever_the_mask(database: Database, file: Path) -> None:
    before = os.umask(0)
    try:
        await first_key(database, file)
    finally:
        os.umask(before)
    assert mode(file) == 0o600
    assert [path.name for path in sorted(file.parent.glob("admin*"))] == ["admin.key"]


async def test_the_first_key_s_file_is_written_before_its_row_commits(
    service: Service, file: Path, store: Store
) -> None:
    """A crash in between leaves a file of a key that does not exist; the next start writes another."""

    def crash(connection: Connection) -> None:
        assert insert_first_key(connection, file, START)
        assert mode(file) == 0o600
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await service.stage.write(crash)
    assert not await store.read(rows.any_keys)
    useless = credential_in(file)
    assert await first_key(service.stage, file)
    await service.authority.authenticate(credential_in(file))
    assert (await refusal(service.authority.authenticate(useless))).code is Code.UNAUTHENTICATED


async def test_a_first_key_that_cannot_be_written_is_not_made(database: Database, file: Path, store: Store) -> None:
    with pytest.raises(OSError, match="No such file"):
        await first_key(database, file.parent / "nowhere" / "admin.key")
    assert not await store.read(rows.any_keys)
    assert await first_key(database, file)


def leave_behind(path: Path) -> None:
    path.write_text("half a cred")  # by a crash


async def test_another_admin_key_replaces_a_lost_file(service: Service, file: Path) -> None:
    await first_key(service.stage, file)
    old = credential_in(file)
    leave_behind(file.with_name("admin.key.new"))
    await service.stage.write(partial(insert_admin_key, path=file, name="bootstrap", now=START))
    assert mode(file) == 0o600
    for credential in (old, credential_in(file)):
        assert (await service.authority.authenticate(credential)).grants == {EVERYWHERE}
