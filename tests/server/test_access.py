"""Who may do what where, and in which order that is looked at (CONTRACT sections 6 and 9)."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import MethodDescriptor
from tests.clients import ANSWERED, Client, grant, refusal, refusal_of
from tests.questions import choice_question
from tests.servers import Served

from askd.server.ask_servicer import AskServicer
from askd.server.key_servicer import KeyServicer
from askd.v1 import ask_service_pb2, key_service_pb2, session_service_pb2
from askd.v1.ask_service_pb2_grpc import AskServiceServicer
from askd.v1.key_service_pb2_grpc import KeyServiceServicer

DENIED = grpc.StatusCode.PERMISSION_DENIED
PROTOS = (ask_service_pb2, key_service_pb2, session_service_pb2)


def methods() -> Iterator[MethodDescriptor]:
    """Every method of the protos."""
    for module in PROTOS:
        for service in module.DESCRIPTOR.services_by_name.values():
            yield from service.methods


def path(method: MethodDescriptor) -> str:
    return f"/{method.containing_service.full_name}/{method.name}"


async def listed_services(client: Client) -> set[str]:
    """What the server says that it serves."""
    from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

    stub = reflection_pb2_grpc.ServerReflectionStub(client.channel)
    call = stub.ServerReflectionInfo()
    await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
    response: Any = await call.read()
    await call.done_writing()
    return {service.name for service in response.list_services_response.service}


def is_implemented(method: MethodDescriptor, services: set[str]) -> bool:
    if method.containing_service.full_name not in services:
        return False
    for servicer, base in ((AskServicer, AskServiceServicer), (KeyServicer, KeyServiceServicer)):
        if hasattr(base, method.name):
            return getattr(servicer, method.name) is not getattr(base, method.name)
    return True


async def test_a_method_that_no_servicer_defines_is_unimplemented(admin: Client) -> None:
    services = await listed_services(admin)
    paths = [path(method) for method in methods() if not is_implemented(method, services)]
    for name in [*paths, "/askd.v1.AskService/Nothing", "/askd.v2.AskService/Ask", "/askd.v1.AskService", "/x"]:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await admin.send(name, b"")
        assert raised.value.code() is grpc.StatusCode.UNIMPLEMENTED, name


# --- credentials ---


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad credentials are answered at once, however many."""
    monkeypatch.setattr("askd.server.throttle.FREE", 1000)


async def test_who_fails_again_and_again_is_slowed_and_nobody_else(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("askd.server.throttle.LONGEST", 0.2)
    nobody = server.admin.other("askd_nobody")
    for _ in range(8):
        await refusal(nobody.who_am_i())
    begin = time.monotonic()
    slowed = asyncio.create_task(refusal(nobody.who_am_i()))
    await server.admin.who_am_i()
    assert not slowed.done()
    assert (await slowed).reason == "unauthenticated"
    assert time.monotonic() - begin > 0.19


async def bad_credentials(admin: Client, credential: str) -> list[tuple[tuple[str, str | bytes], ...]]:
    """Metadata that stands for nobody."""
    other = (await admin.create_key()).secret
    swapped = other[:31] + credential[31:]
    headers = [
        "", "Bearer", "Bearer ", f"Basic {credential}", credential, f"Token {credential}", f"Bearer{credential}",
        "Bearer askd_", "Bearer x", f"Bearer {credential[:-1]}", f"Bearer {credential}0",
        f"Bearer {credential.upper()}", f"Bearer {swapped}", f"Bearer {credential} {credential}",
        f"Bearer {credential[5:]}", "Bearer " + "x" * 4000,
    ]  # fmt: skip
    return [(), *[(("authorization", header),) for header in headers], (("authorization-bin", b"Bearer x"),)]


@pytest.mark.usefixtures("unhurried")
async def test_a_call_without_a_good_credential_is_unauthenticated(server: Served) -> None:
    for metadata in await bad_credentials(server.admin, server.credential):
        client = server.admin.other(None)
        client.metadata = metadata  # type: ignore[assignment]
        refused = await refusal(client.who_am_i())
        assert (refused.status, refused.reason) == (grpc.StatusCode.UNAUTHENTICATED, "unauthenticated"), metadata


@pytest.mark.usefixtures("unhurried")
async def test_the_refusal_does_not_say_what_is_wrong_with_a_credential(server: Served) -> None:
    messages = set()
    for metadata in await bad_credentials(server.admin, server.credential):
        client = server.admin.other(None)
        client.metadata = metadata  # type: ignore[assignment]
        messages.add((await refusal(client.who_am_i())).message)
    assert len(messages) == 1


@pytest.mark.usefixtures("unhurried")
async def test_every_method_looks_at_the_credential_first(admin: Client) -> None:
    services = await listed_services(admin)
    nobody = admin.other("askd_nobody")
    for method in methods():
        if not is_implemented(method, services):
            continue
        for request in (b"", b"\xff"):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await nobody.send(path(method), request)
            assert refusal_of(raised.value).reason == "unauthenticated", method.full_name


@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER ", "Bearer   "])
async def test_the_scheme_is_spelled_as_http_has_it(server: Served, scheme: str) -> None:
    client = server.admin.other(None)
    client.metadata = (("authorization", f"{scheme}{server.credential}"),)
    assert (await client.who_am_i()).principal.startswith("key:")


# --- workspaces ---


async def test_an_empty_workspace_is_the_only_one_that_the_grants_name(admin: Client) -> None:
    client = await admin.with_grants(grant("asker", "mine"), grant("answerer", "mine"))
    ask = await client.ask(workspace_id="")
    assert ask.workspace_id == "mine"
    assert (await client.get(ask.id, workspace_id="")) == ask
    assert (await client.answer(ask.id, workspace_id="")).status == ANSWERED


async def test_an_empty_workspace_is_default_for_whoever_may_everywhere(admin: Client) -> None:
    both = await admin.with_grants(grant("asker", "*"), grant("asker", "mine"))
    for client in (admin, both):
        assert (await client.ask(workspace_id="")).workspace_id == "default"


async def test_an_empty_workspace_is_refused_where_it_could_be_several_or_none(admin: Client) -> None:
    several = await admin.with_grants(grant("asker", "v"), grant("asker", "w"))
    nobody = await admin.with_grants()
    for client in (several, nobody):
        refused = await refusal(client.ask(workspace_id=""))
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("workspace_id",))


def calls_in(workspace_id: str, ask_id: str) -> list[Callable[[Client], Awaitable[Any]]]:
    """Every call that names a workspace, all with something wrong besides."""
    there = {"workspace_id": workspace_id}
    return [
        lambda client: client.ask(session_id="", request_id="x" * 600, **there),
        lambda client: client.wait(ask_id, -1, **there),
        lambda client: client.get(ask_id, **there),
        lambda client: client.page(limit=-1, cursor="x", statuses=[77], **there),
        lambda client: client.answer(ask_id, answer_id="", **there),
        lambda client: client.reject(ask_id, reason="x" * 9000, **there),
        lambda client: client.cancel(ask_id, **there),
        lambda client: client.watch(after_revision=-1, statuses=[77], **there).response(),
    ]


@pytest.mark.parametrize("workspace_id", ["w", "unused", " ", "x" * 129, "\x00"])
async def test_a_workspace_without_a_grant_is_denied_before_anything_is_looked_at(
    admin: Client, workspace_id: str
) -> None:
    stranger = await admin.with_grants(grant("admin", "v"))
    nobody = await admin.with_grants()
    ask = await admin.ask()
    for client in (stranger, nobody):
        for call in calls_in(workspace_id, ask.id):
            refused = await refusal(call(client))
            assert (refused.status, refused.reason) == (DENIED, "permission_denied")
    assert await admin.get(ask.id) == ask


async def test_an_ask_of_another_workspace_is_not_found(admin: Client) -> None:
    ask = await admin.ask(workspace_id="v")
    for call in (admin.get, admin.answer, admin.reject, admin.cancel, admin.wait):
        refused = await refusal(call(ask.id))
        assert (refused.reason, refused.resource) == ("not_found", ("ask", ask.id))


async def test_lists_and_watches_hold_their_workspace_only(admin: Client) -> None:
    await admin.ask(workspace_id="v")
    ask = await admin.ask(workspace_id="w")
    client = await admin.with_grants(grant("viewer", "w"))
    assert await client.list_all() == [ask]
    async with client.watch() as watcher:
        assert [event.ask for event in await watcher.until_synced()] == [ask]


# --- roles ---

CALLS: dict[str, Callable[[Client, str], Awaitable[Any]]] = {
    "Ask": lambda client, _: client.ask(),
    "WaitAsk": lambda client, ask_id: client.wait(ask_id, 0),
    "GetAsk": lambda client, ask_id: client.get(ask_id),
    "ListAsks": lambda client, _: client.page(),
    "AnswerAsk": lambda client, ask_id: client.answer(ask_id),
    "RejectAsk": lambda client, ask_id: client.reject(ask_id),
    "CancelAsk": lambda client, ask_id: client.cancel(ask_id),
    "WatchAsks": lambda client, _: client.watch().response(),
    "ValidateQuestion": lambda client, _: client.validate(choice_question()),
    "WhoAmI": lambda client, _: client.who_am_i(),
    "CreateKey": lambda client, _: client.create_key(grant("viewer", "w")),
    "ListKeys": lambda client, _: client.list_keys(),
    "RevokeKey": lambda client, _: client.revoke_key("key_unknown"),
}
READS = {"WaitAsk", "GetAsk", "ListAsks", "WatchAsks", "ValidateQuestion", "WhoAmI"}
ALLOWED = {
    "asker": {"Ask", "CancelAsk"} | READS,
    "viewer": READS,
    "answerer": {"AnswerAsk", "RejectAsk"} | READS,
    "admin": set(CALLS),
}


@pytest.mark.parametrize("workspace_id", ["w", "*"])
@pytest.mark.parametrize("role", ALLOWED)
async def test_a_role_allows_what_the_contract_says(admin: Client, role: str, workspace_id: str) -> None:
    client = await admin.with_grants(grant(role, workspace_id))
    allowed = set()
    for name, call in CALLS.items():
        ask = await admin.ask()
        try:
            await call(client, ask.id)
        except grpc.aio.AioRpcError as error:
            refused = refusal_of(error)
            if refused.reason == "not_found" and name == "RevokeKey":
                allowed.add(name)
                continue
            assert (refused.status, refused.reason) == (DENIED, "permission_denied")
            assert await admin.get(ask.id) == ask
        else:
            allowed.add(name)
    assert allowed == ALLOWED[role]


async def test_roles_add_up(admin: Client) -> None:
    client = await admin.with_grants(grant("asker", "w"), grant("answerer", "*"))
    ask = await client.ask()
    assert (await client.answer(ask.id)).status == ANSWERED
    assert (await refusal(client.ask(workspace_id="v"))).reason == "permission_denied"


async def test_what_is_seen_without_the_role_is_denied_and_what_is_not_there_not_found(admin: Client) -> None:
    viewer = await admin.with_grants(grant("viewer", "w"))
    ask, elsewhere = await admin.ask(), await admin.ask(workspace_id="v")
    for call in (viewer.answer, viewer.reject, viewer.cancel):
        assert (await refusal(call(ask.id))).reason == "permission_denied"
        assert (await refusal(call(elsewhere.id))).reason == "not_found"
        assert (await refusal(call("que_unknown"))).reason == "not_found"


def test_the_table_is_of_methods_that_exist() -> None:
    assert {method.name for method in methods()} >= set(CALLS)
