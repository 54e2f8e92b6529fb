"""Grants, keys that expire, and the end of what was open (CONTRACT sections 5 and 9)."""

from pathlib import Path

import grpc
import pytest
from tests.access.managing import give, grants_of, key_for, take
from tests.clients import Client, grant, refusal
from tests.lifecycle.times import SECOND, Clock
from tests.servers import Served, served


async def test_a_grant_counts_from_the_next_call_on(admin: Client) -> None:
    key = await admin.create_key(grant("viewer", "w"))
    client, principal = admin.other(key.secret), f"key:{key.key.id}"
    assert (await refusal(client.ask())).reason == "permission_denied"
    await give(admin, principal, grant("asker", "w"))
    await client.ask()
    await take(admin, principal, grant("asker", "w"))
    assert (await refusal(client.ask())).reason == "permission_denied"
    assert await grants_of(admin, principal) == [grant("viewer", "w")]


async def test_granting_and_taking_again_changes_nothing(admin: Client) -> None:
    for _ in range(2):
        await give(admin, "user:u", grant("viewer", "w", "s"))
    assert await grants_of(admin, "user:u") == [grant("viewer", "w", "s")]
    for _ in range(2):
        await take(admin, "user:u", grant("viewer", "w", "s"))
    assert await grants_of(admin, "user:u") == []


async def test_a_workspaces_admin_does_not_reach_beyond_it(admin: Client) -> None:
    local = await admin.with_grants(grant("admin", "w"))
    for beyond in (grant("viewer", "*"), grant("viewer", "other"), grant("admin", "*")):
        assert (await refusal(give(local, "user:u", beyond))).reason == "permission_denied"
        assert (await refusal(take(local, "user:u", beyond))).reason == "permission_denied"
        assert (await refusal(local.create_key(beyond))).reason == "permission_denied"
        assert (await refusal(local.create_key(grant("viewer", "w"), beyond))).reason == "permission_denied"
    assert (await refusal(local.create_key())).reason == "permission_denied", "a key in no workspace lies in none"
    foreign = await admin.create_key(grant("viewer", "w"), grant("viewer", "other"))
    assert (await refusal(local.revoke_key(foreign.key.id))).reason == "not_found"
    await give(admin, "user:u", grant("viewer", "other"))
    await give(local, "user:u", grant("viewer", "w", "s"))
    assert await grants_of(local, "user:u") == [grant("viewer", "w", "s")]
    assert {key.id for key in await local.list_keys()} == {await local.key_id()}


async def test_a_principal_has_at_most_64_grants(admin: Client) -> None:
    for number in range(64):
        await give(admin, "user:u", grant("viewer", f"w{number}"))
    await give(admin, "user:u", grant("viewer", "w0"))
    assert (await refusal(give(admin, "user:u", grant("viewer", "w64")))).reason == "invalid_arguments"


@pytest.mark.parametrize(
    "principal", ["", "u", "user:", "robot:u", "user:" + "x" * 252, "user:\0", "user:a\n", "key:\x7f"]
)
async def test_a_principal_is_user_or_key_and_an_id(admin: Client, principal: str) -> None:
    viewer = grant("viewer", "w")
    for call in (give(admin, principal, viewer), take(admin, principal, viewer), grants_of(admin, principal)):
        refused = await refusal(call)
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("principal",))


async def test_a_grant_to_a_key_that_is_not_there_is_refused(admin: Client) -> None:
    refused = await refusal(give(admin, "key:key_none", grant("viewer", "w")))
    assert (refused.reason, refused.resource) == ("not_found", ("key", "key_none"))


async def test_a_key_works_until_it_expires(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock) as server:
        key = await key_for(server.admin, 60, grant("viewer", "w"))
        assert key.key.expires_at.ToMicroseconds() == clock.now + 60 * SECOND
        client = server.admin.other(key.secret)
        await client.list_all()
        async with client.watch() as watcher:
            await watcher.until_synced()
            clock.now += 60 * SECOND
            assert (await refusal(client.list_all())).reason == "unauthenticated"
            assert (await watcher.end()).reason == "unauthenticated"


@pytest.mark.parametrize("seconds", [0, -1])
async def test_a_key_expires_after_some_time(admin: Client, seconds: float) -> None:
    refused = await refusal(key_for(admin, seconds, grant("viewer", "w")))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("expires_in",))


async def test_a_revoked_key_ends_its_watches_and_waits(server: Served) -> None:
    admin = server.admin
    asked = await admin.ask()
    key = await admin.create_key(grant("viewer", "w"))
    client = admin.other(key.secret)
    async with client.watch() as watcher, admin.watch() as other:
        await watcher.until_synced()
        await other.until_synced()
        await admin.revoke_key(key.key.id)
        assert (await watcher.end()).status is grpc.StatusCode.UNAUTHENTICATED
        late = await admin.ask()
        assert [event.ask.id for event in await other.events(1)] == [late.id], "another caller's watch was hurt"
    assert (await refusal(client.wait(asked.id))).reason == "unauthenticated"


async def test_a_removed_grant_ends_what_it_let_in_and_nothing_else(server: Served) -> None:
    admin = server.admin
    asked = await admin.ask()
    key = await admin.create_key(grant("viewer", "w"), grant("viewer", "other"))
    client, principal = admin.other(key.secret), f"key:{key.key.id}"
    async with client.watch() as watcher, client.watch(workspace_id="other") as other:
        await watcher.until_synced()
        await other.until_synced()
        waiting = refusal(client.wait(asked.id))
        await take(admin, principal, grant("viewer", "w"))
        assert (await watcher.end()).status is grpc.StatusCode.PERMISSION_DENIED
        assert (await waiting).reason == "permission_denied"
        await admin.ask(workspace_id="other")
        await other.events(1)


async def test_a_narrowed_grant_ends_a_watch_of_more(server: Served) -> None:
    admin = server.admin
    key = await admin.create_key(grant("viewer", "w"), grant("viewer", "w", "s"))
    client, principal = admin.other(key.secret), f"key:{key.key.id}"
    async with client.watch() as wide, client.watch(session_id="s") as narrow:
        await wide.until_synced()
        await narrow.until_synced()
        await take(admin, principal, grant("viewer", "w"))
        assert (await wide.end()).reason == "permission_denied"
        assert (await narrow.end()).reason == "permission_denied"
    async with client.watch() as bound:
        await bound.until_synced()
