"""Who a credential stands for, and what ends what it opened (CONTRACT sections 6 and 9)."""

import asyncio
import gc
from functools import partial

import pytest
from tests.conditions import eventually
from tests.service.services import Clock, Service, Watcher
from tests.store.commands import ANN, create
from tests.store.databases import START, Store
from tests.store.stages import away

from askd.domain.asks import AskFilter
from askd.domain.errors import AskdError, Code
from askd.domain.principals import Caller, Grant, Principal, PrincipalKind, Role, unauthenticated
from askd.service.asks import AskReference
from askd.service.authority import REVIEW, TRUST, Authority
from askd.store import keys as rows
from askd.store.keys import ApiKey

ASKER = Grant(role=Role.ASKER, workspace_id="w")
VIEWER = Grant(role=Role.VIEWER, workspace_id="w")
ADMIN = Caller(principal=ANN, grants=frozenset({Grant(role=Role.ADMIN, workspace_id="*")}))
HOUR = 3600 * 1_000_000


async def made(service: Service, *grants: Grant, expires_in: int | None = None) -> tuple[ApiKey, str]:
    """A key and its credential."""
    return await service.keys.create(ADMIN, "a key", frozenset(grants or {ASKER}), expires_in)


async def refusal(service: Service, credential: str) -> AskdError:
    with pytest.raises(AskdError) as refused:
        await service.authority.authenticate(credential)
    return refused.value


# --- credentials ---


async def test_a_credential_stands_for_its_key_and_its_grants(service: Service) -> None:
    key, credential = await made(service, ASKER, VIEWER)
    caller = await service.authority.authenticate(credential)
    assert (caller.principal, caller.grants) == (key.principal, frozenset({ASKER, VIEWER}))
    assert caller.principal == Principal(kind=PrincipalKind.API_KEY, id=key.id)


async def test_whatever_is_wrong_with_a_credential_the_refusal_is_the_same(service: Service) -> None:
    key, credential = await made(service)
    _, other = await made(service)
    wrong = [
        "", " ", "askd_", credential[:-1], credential + "0", credential[5:], credential.upper(), f" {credential}",
        key.id, credential[:31] + other[31:], credential[:31], f"askd_{0:026}{credential[31:]}",
        "askd_" + "x" * 9000,
        "askd_\x00" + "x" * 60, "askd_" + "é" * 60, "askd_'; --" + "x" * 60, "a.b.c",
    ]  # fmt: skip
    for each in wrong:
        error = await refusal(service, each)
        assert error.code is Code.UNAUTHENTICATED, each
        assert error.message == unauthenticated().message
    assert (await service.authority.authenticate(credential)).principal == key.principal


async def test_a_key_seen_lately_costs_no_look_at_the_database(service: Service) -> None:
    _, credential = await made(service)
    await service.authority.authenticate(credential)
    reads = service.stage.reads
    for _ in range(20):
        await service.authority.authenticate(credential)
        await refusal(service, credential[:-1] + "-")
    assert service.stage.reads == reads
    service.clock.advance(TRUST + 0.1)
    await service.authority.authenticate(credential)
    assert service.stage.reads == reads + 1


async def test_nothing_is_kept_of_credentials_that_somebody_made_up(service: Service) -> None:
    for number in range(300):
        await refusal(service, f"askd_{number:026}{'0' * 64}")
    assert not service.authority._known


async def test_a_database_that_is_away_is_no_reason_to_refuse_a_credential(service: Service) -> None:
    _, credential = await made(service)
    service.stage.failure = away()
    assert (await refusal(service, credential)).code is Code.UNAVAILABLE
    service.stage.failure = None
    await service.authority.authenticate(credential)


async def test_a_secret_is_in_nothing_that_the_service_keeps_or_logs(
    service: Service, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(0):
        key, credential = await made(service)
        caller = await service.authority.authenticate(credential)
        error = await refusal(service, credential[:-1] + "-")
    secret = credential[31:]
    assert len(secret) == 64
    for shown in (key, caller, error, error.args, service.authority._known, await store.rows(), caplog.text):
        assert secret not in repr(shown)
        assert secret[:-1] not in repr(shown)
    held = [thing for thing in gc.get_objects() if isinstance(thing, ApiKey | Caller) and secret in repr(thing)]
    assert held == []


# --- expiry and revocation ---


async def test_a_key_fails_from_its_expiry_on(service: Service) -> None:
    _, credential = await made(service, expires_in=HOUR)
    caller = await service.authority.authenticate(credential)
    assert caller.expires_at == START + HOUR
    service.clock.advance(3599.999)
    await service.authority.authenticate(credential)
    service.clock.advance(0.001)
    assert (await refusal(service, credential)).code is Code.UNAUTHENTICATED


async def test_a_revocation_counts_from_the_next_call_on(service: Service) -> None:
    key, credential = await made(service)
    await service.authority.authenticate(credential)
    revoked = await service.keys.revoke(ADMIN, key.id)
    assert revoked.revoked_at == service.clock.now
    assert (await refusal(service, credential)).code is Code.UNAUTHENTICATED


async def test_a_revocation_counts_though_the_key_was_being_looked_up(service: Service) -> None:
    key, credential = await made(service)
    with service.stage.holding_what_was_read() as gate:
        early = asyncio.create_task(service.authority.authenticate(credential))
        await gate.reached()  # with the key as it was
        await service.keys.revoke(ADMIN, key.id)
    with pytest.raises(AskdError, match="not valid"):
        await early
    assert (await refusal(service, credential)).code is Code.UNAUTHENTICATED


async def test_a_revocation_counts_though_whoever_revoked_has_left(service: Service) -> None:
    """The revocation was committed, yet this server went on to trust the key."""
    key, credential = await made(service)
    await service.authority.authenticate(credential)
    before = asyncio.all_tasks()
    with service.stage.holding_what_was_written() as gate:
        leaving = asyncio.create_task(service.keys.revoke(ADMIN, key.id))
        await gate.reached()
        leaving.cancel()
        await asyncio.wait([leaving])
    await eventually(lambda: asyncio.all_tasks() == before)
    assert (await refusal(service, credential)).code is Code.UNAUTHENTICATED


async def test_another_server_s_revocation_counts_within_five_seconds(service: Service, store: Store) -> None:
    key, credential = await made(service)
    await service.authority.authenticate(credential)
    await store.database.write(partial(rows.revoke, key_id=key.id, now=1))
    assert TRUST + REVIEW < 5
    service.clock.advance(TRUST + 0.1)
    assert (await refusal(service, credential)).code is Code.UNAUTHENTICATED


async def test_a_grant_counts_from_the_next_call_on(service: Service) -> None:
    key, credential = await made(service)
    await service.authority.authenticate(credential)
    await service.keys.grant(ADMIN, key.principal, VIEWER)
    assert (await service.authority.authenticate(credential)).grants == {ASKER, VIEWER}
    await service.keys.ungrant(ADMIN, key.principal, ASKER)
    assert (await service.authority.authenticate(credential)).grants == {VIEWER}


# --- users ---


class Tokens:
    """Verifies the one token that there is."""

    async def verify(self, token: str) -> tuple[str, int]:
        if token != "a.b.c":
            raise unauthenticated()
        return "ann", START + HOUR


async def test_a_token_stands_for_its_user(service: Service) -> None:
    clock = Clock()
    authority = Authority(service.reader, service.streams, clock, clock.monotonic, Tokens())
    user = Principal(kind=PrincipalKind.USER, id="ann")
    await service.keys.grant(ADMIN, user, VIEWER)
    caller = await authority.authenticate("a.b.c")
    assert (caller.principal, caller.grants, caller.expires_at) == (user, frozenset({VIEWER}), START + HOUR)
    with pytest.raises(AskdError, match="not valid"):
        await authority.authenticate("a.b.d")
    assert (await refusal(service, "a.b.c")).code is Code.UNAUTHENTICATED  # where no issuer is configured


async def test_a_user_without_grants_is_somebody_who_may_do_nothing(service: Service) -> None:
    clock = Clock()
    authority = Authority(service.reader, service.streams, clock, clock.monotonic, Tokens())
    caller = await authority.authenticate("a.b.c")
    with pytest.raises(AskdError) as refused:
        caller.enter("w")
    assert refused.value.code is Code.PERMISSION_DENIED


# --- open streams ---

W = AskFilter(workspace_id="w")


async def watching(service: Service, credential: str) -> Watcher:
    """A watch of whoever holds a credential."""
    access = (await service.authority.authenticate(credential)).enter("w")
    watcher = Watcher(service, W, caller=access)
    await watcher.synced()
    return watcher


async def ended(watcher: Watcher) -> Code:
    with pytest.raises(AskdError) as end:
        async with asyncio.timeout(5):
            await watcher.task
    return end.value.code


async def test_a_revocation_ends_the_key_s_watches_and_waits_and_nobody_else_s(service: Service, store: Store) -> None:
    ask = await service.ask(create())
    key, credential = await made(service)
    _, other = await made(service)
    mine, others = await watching(service, credential), await watching(service, other)
    access = (await service.authority.authenticate(credential)).enter("w")
    wait = asyncio.create_task(service.asks.wait(access, AskReference(ask_id=ask.id), None))
    await asyncio.sleep(0)
    await service.authority.review()
    assert not mine.task.done()
    await store.database.write(partial(rows.revoke, key_id=key.id, now=1))  # wherever
    await service.authority.review()
    assert await ended(mine) is Code.UNAUTHENTICATED
    with pytest.raises(AskdError) as end:
        await wait
    assert end.value.code is Code.UNAUTHENTICATED
    await service.do(create())
    await others.reached(2)


async def test_a_grant_that_is_removed_ends_the_watches_that_need_it(service: Service) -> None:
    key, credential = await made(service, ASKER, Grant(role=Role.VIEWER, workspace_id="v"))
    watcher = await watching(service, credential)
    await service.keys.ungrant(ADMIN, key.principal, Grant(role=Role.VIEWER, workspace_id="v"))
    await service.authority.review()
    await service.do(create())
    await watcher.reached(1)
    await service.keys.ungrant(ADMIN, key.principal, ASKER)
    await service.authority.review()
    assert await ended(watcher) is Code.PERMISSION_DENIED


async def test_a_grant_that_is_narrowed_to_a_session_ends_the_watches_of_more(service: Service) -> None:
    key, credential = await made(service, VIEWER)
    watcher = await watching(service, credential)
    await service.keys.grant(ADMIN, key.principal, Grant(role=Role.VIEWER, workspace_id="w", session_id="s"))
    await service.keys.ungrant(ADMIN, key.principal, VIEWER)
    await service.authority.review()
    assert await ended(watcher) is Code.PERMISSION_DENIED


async def test_a_credential_that_expires_ends_its_watches(service: Service) -> None:
    _, credential = await made(service, expires_in=HOUR)
    watcher = await watching(service, credential)
    service.clock.advance(3599)
    await service.authority.review()
    assert not watcher.task.done()
    service.clock.advance(1)
    await service.authority.review()
    assert await ended(watcher) is Code.UNAUTHENTICATED


async def test_a_review_that_finds_the_database_away_ends_nothing(service: Service) -> None:
    _, credential = await made(service)
    watcher = await watching(service, credential)
    service.stage.failure = away()
    with pytest.raises(AskdError):
        await service.authority.review()
    service.stage.failure = None
    await service.do(create())
    await watcher.reached(1)


async def test_where_nothing_is_open_a_review_costs_nothing(service: Service) -> None:
    reads = service.stage.reads
    await service.authority.review()
    assert service.stage.reads == reads
