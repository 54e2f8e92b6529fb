"""KeyService over the wire, and what is kept of keys (CONTRACT section 9)."""

import re
import time
from pathlib import Path

import grpc
import pytest
from tests.clients import Client, connected, grant, refusal
from tests.servers import Served, served

from askd.v1 import key_service_pb2

INVALID = grpc.StatusCode.INVALID_ARGUMENT
DENIED = grpc.StatusCode.PERMISSION_DENIED


async def test_a_new_key_works_and_shows_its_secret_once(admin: Client) -> None:
    before = time.time()
    created = await admin.create_key(grant("asker", "w"), name="my agent")
    after = time.time()
    assert re.fullmatch(r"key_[0-9a-hjkmnp-tv-z]{26}", created.key.id)
    assert created.secret.startswith("askd_")
    assert before <= created.key.created_at.ToMicroseconds() / 1e6 <= after
    expected = key_service_pb2.ApiKey(
        id=created.key.id, name="my agent", grants=[grant("asker", "w")], created_at=created.key.created_at
    )
    assert created.key == expected
    me = await admin.other(created.secret).who_am_i()
    assert me == key_service_pb2.WhoAmIResponse(principal=f"key:{created.key.id}", grants=[grant("asker", "w")])
    assert created.secret not in str(await admin.list_keys())


async def test_keys_are_listed_oldest_first_with_the_first_one(admin: Client) -> None:
    created = [(await admin.create_key(name=name)).key for name in ("b", "a", "b")]
    first, *others = await admin.list_keys()
    assert others == created
    assert (first.id, list(first.grants)) == (await admin.key_id(), [grant("admin")])


async def test_a_revoked_key_fails_at_its_next_call(admin: Client) -> None:
    created = await admin.create_key(grant("admin"))
    client = admin.other(created.secret)
    for _ in range(3):
        await client.who_am_i()  # known to the server by now
    revoked = await admin.revoke_key(created.key.id)
    refused = await refusal(client.who_am_i())
    assert (refused.status, refused.reason) == (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated")
    assert revoked.HasField("revoked_at")
    assert await admin.revoke_key(created.key.id) == revoked, "again changes nothing"
    assert [key for key in await admin.list_keys() if key.id == revoked.id] == [revoked]


async def test_a_key_may_revoke_itself(admin: Client) -> None:
    created = await admin.create_key(grant("admin"))
    client = admin.other(created.secret)
    await client.revoke_key(created.key.id)
    assert (await refusal(client.who_am_i())).reason == "unauthenticated"


async def test_a_revoked_key_stays_revoked_after_a_restart(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as first:
        kept, gone = [await first.admin.create_key(grant("viewer")) for _ in range(2)]
        await first.admin.revoke_key(gone.key.id)
    async with served(tmp_path / "data", environment=database_settings) as second:
        assert (await second.admin.other(kept.secret).who_am_i()).principal == f"key:{kept.key.id}"
        assert (await refusal(second.admin.other(gone.secret).who_am_i())).reason == "unauthenticated"


@pytest.mark.parametrize("key_id", ["", "key_unknown", "x" * 10_000, "\x00"])
async def test_an_unknown_key_is_not_found(admin: Client, key_id: str) -> None:
    refused = await refusal(admin.revoke_key(key_id))
    assert (refused.status, refused.reason) == (grpc.StatusCode.NOT_FOUND, "not_found")
    assert refused.resource is not None
    assert refused.resource[0] == "key"


@pytest.mark.parametrize("name", ["", "x" * 256, "ключ \x00\n", "😀" * 64])
async def test_any_text_of_256_bytes_is_a_name(admin: Client, name: str) -> None:
    assert (await admin.create_key(name=name)).key.name == name
    assert (await admin.list_keys())[-1].name == name


async def test_a_name_beyond_256_bytes_is_refused(admin: Client) -> None:
    refused = await refusal(admin.create_key(name="€" * 86))
    assert (refused.status, refused.reason, refused.fields) == (INVALID, "invalid_arguments", ("name",))


async def test_a_key_has_at_most_64_grants(admin: Client) -> None:
    grants = [grant("viewer", f"w{number}") for number in range(65)]
    assert len((await admin.create_key(*grants[:64])).key.grants) == 64
    refused = await refusal(admin.create_key(*grants))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("grants",))


@pytest.mark.parametrize("role", [0, 5, -1, 2**31 - 1])
async def test_an_unknown_role_is_refused(admin: Client, role: int) -> None:
    bad = key_service_pb2.Grant(workspace_id="w", role=role)  # type: ignore[arg-type]
    refused = await refusal(admin.create_key(grant("viewer", "w"), bad))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("grants[1].role",))


@pytest.mark.parametrize("workspace_id", ["", " ", "x" * 129, "\x00"])
async def test_a_grant_names_its_workspace(admin: Client, workspace_id: str) -> None:
    refused = await refusal(admin.create_key(grant("viewer", "w"), grant("viewer", workspace_id)))
    assert (refused.status, refused.reason) == (INVALID, "invalid_arguments")
    assert refused.fields == ("grants[1].workspace_id",)
    assert len(await admin.list_keys()) == 1


# --- a workspace's admin ---


async def test_a_workspaces_admin_makes_keys_inside_it_only(admin: Client) -> None:
    local = await admin.with_grants(grant("admin", "w"))
    assert (await local.create_key(grant("admin", "w"), grant("asker", "w"))).secret
    for grants in ([], [grant("viewer", "v")], [grant("viewer", "w"), grant("viewer", "v")], [grant("viewer", "*")]):
        refused = await refusal(local.create_key(*grants))
        assert (refused.status, refused.reason) == (DENIED, "permission_denied")


async def test_a_workspaces_admin_sees_and_revokes_keys_inside_it_only(admin: Client) -> None:
    local = await admin.with_grants(grant("admin", "w"), grant("viewer", "v"))
    inside = await admin.create_key(grant("viewer", "w"))
    outside = [
        await admin.create_key(*grants)
        for grants in ([], [grant("viewer", "v")], [grant("viewer", "w"), grant("viewer", "v")], [grant("viewer", "*")])
    ]
    assert [key.id for key in await local.list_keys()] == [inside.key.id]
    for other in outside:
        assert (await refusal(local.revoke_key(other.key.id))).reason == "not_found"
        assert (await admin.other(other.secret).who_am_i()).principal == f"key:{other.key.id}"
    assert (await local.revoke_key(inside.key.id)).HasField("revoked_at")


async def test_an_admin_of_two_workspaces_manages_keys_of_both(admin: Client) -> None:
    local = await admin.with_grants(grant("admin", "v"), grant("admin", "w"))
    created = await local.create_key(grant("asker", "v"), grant("viewer", "w"))
    assert created.key.id in {key.id for key in await local.list_keys()}


# --- what is kept ---


async def test_no_secret_is_stored(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as running:
        secret = (await running.admin.create_key(grant("viewer"))).secret
        first = running.credential
        stored = b"".join(path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name != "admin.key")
    for credential in (secret, first):
        assert credential.encode() not in stored
        assert credential[31:].encode() not in stored
        assert credential[31:47].encode() not in stored


async def test_the_first_key_stays_the_same_after_a_restart(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as first:
        credential = first.credential
    async with served(tmp_path / "data", environment=database_settings) as second:
        assert second.credential == credential
        assert len(await second.admin.list_keys()) == 1


async def test_credentials_hold_on_every_connection(server: Served) -> None:
    secret = (await server.admin.create_key(grant("viewer", "w"))).secret
    async with connected(server.address, secret) as one, connected(server.address, secret) as two:
        assert (await one.who_am_i()) == (await two.who_am_i())
