"""Every method by every kind of credential. The methods come from the descriptors: a new one without an entry fails."""

import asyncio
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from tests.access.managing import key_for
from tests.clients import Client, grant, refusal_of
from tests.questions import text, text_question
from tests.servers import Served

from askd.v1 import ask_pb2, ask_service_pb2, key_service_pb2, session_service_pb2

FILES = (ask_service_pb2, session_service_pb2, key_service_pb2)
METHODS = {
    method.name: method
    for file in FILES
    for service in file.DESCRIPTOR.services_by_name.values()
    for method in service.methods
}

ASKER, VIEWER, ANSWERER, ADMIN = "asker", "viewer", "answerer", "admin"
READERS = {ASKER, VIEWER, ANSWERER, ADMIN}
ANY = READERS | {"stranger", "neighbour"}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Whom a method lets in, and what the others are told: about a thing that they cannot see it is not_found."""

    roles: set[str]
    #: What a caller of another workspace, of another session, and of a wrong role is told.
    stranger: str = "permission_denied"
    neighbour: str = "permission_denied"
    fields: dict[str, Any]


def _of_ask(roles: set[str], neighbour: str = "not_found", **fields: Any) -> Rule:
    return Rule(roles=roles, neighbour=neighbour, fields={"workspace_id": "w", "ask_id": "ASK"} | fields)


_SESSION = {"workspace_id": "w", "session_id": "s"}
_GRANT = {"principal": "user:u", "grant": grant(VIEWER, "w")}
RULES = {
    "Ask": Rule(roles={ASKER, ADMIN}, fields=_SESSION | {"questions": [text_question()]}),
    "WaitAsk": _of_ask(READERS, timeout=0),
    "GetAsk": _of_ask(READERS),
    "ListAsks": Rule(roles=READERS, neighbour="ok", fields={"workspace_id": "w"}),
    "AnswerAsk": _of_ask({ANSWERER, ADMIN}, answer_id="a", answers=[text()]),
    "RejectAsk": _of_ask({ANSWERER, ADMIN}),
    "CancelAsk": _of_ask({ASKER, ADMIN}),
    "ConsultAsk": _of_ask({ANSWERER, ADMIN}, provider_id="none", model_id="none"),
    "WatchAsks": Rule(roles=READERS, neighbour="ok", fields={"workspace_id": "w"}),
    "ValidateQuestion": Rule(roles=ANY, stranger="ok", neighbour="ok", fields={"question": text_question()}),
    "OpenSession": Rule(roles={ASKER, ADMIN}, fields=_SESSION),
    "EndTurn": Rule(
        roles={ASKER, ADMIN},
        fields=_SESSION | {"turn_id": "t", "outcome": session_service_pb2.TURN_OUTCOME_COMPLETED},
    ),
    "EndSession": Rule(roles={ASKER, ADMIN}, fields=_SESSION),
    "CreateKey": Rule(roles={ADMIN}, fields={"grants": [grant(VIEWER, "w")]}),
    "ListKeys": Rule(roles={ADMIN}, fields={}),
    "RevokeKey": Rule(roles={ADMIN}, fields={"key_id": "KEY"}),
    "GrantRole": Rule(roles={ADMIN}, fields=_GRANT),
    "RevokeRole": Rule(roles={ADMIN}, fields=_GRANT),
    "ListGrants": Rule(roles={ADMIN}, fields={"principal": "user:u"}),
    "WhoAmI": Rule(roles=ANY, stranger="ok", neighbour="ok", fields={}),
}


#: Credentials that nobody was given, and grants, by the kind of the caller.
NONSENSE = {"none": None, "malformed": "askd_", "token": "eyJhbGciOiJub25lIn0.e30.", "unknown": "askd_" + "0" * 90}
GRANTS = {
    "stranger": [grant(ADMIN, "elsewhere")],
    "neighbour": [grant(ANSWERER, "w", "other"), grant(ASKER, "w", "other")],
    **{role: [grant(role, "w")] for role in READERS},
    **{f"{role} of the session": [grant(role, "w", "s")] for role in READERS},
}


@dataclass(frozen=True, kw_only=True)
class World:
    """A server with an ask and a key."""

    admin: Client
    ask_id: str
    key_id: str

    async def client(self, kind: str) -> Client:
        """A client with a credential of a kind."""
        if kind in NONSENSE:
            return self.admin.other(NONSENSE[kind])
        if kind in GRANTS:
            return await self.admin.with_grants(*GRANTS[kind])
        if kind == "expired":
            return self.admin.other((await key_for(self.admin, 0.001, grant(ADMIN, "w"))).secret)
        made = await self.admin.create_key(grant(ADMIN, "w"))
        if kind == "wrong":
            return self.admin.other(made.secret[:-1] + ("0" if made.secret[-1] != "0" else "1"))
        assert kind == "revoked"
        await self.admin.revoke_key(made.key.id)
        return self.admin.other(made.secret)


@pytest.fixture
async def world(server: Served) -> World:
    asked = await server.admin.ask()
    spare = await server.admin.create_key(grant(VIEWER, "w"))
    return World(admin=server.admin, ask_id=asked.id, key_id=spare.key.id)


async def _verdict(world: World, client: Client, name: str) -> str:
    """The code of the refusal, or ok."""
    method = METHODS[name]
    fields = {
        key: {"ASK": world.ask_id, "KEY": world.key_id}.get(value, value) if isinstance(value, str) else value
        for key, value in RULES[name].fields.items()
    }
    timeout = fields.pop("timeout", None)
    request: Any = message_factory.GetMessageClass(method.input_type)(**fields)
    if timeout is not None:
        request.timeout.SetInParent()
    call = client.send(f"/{method.full_name.rpartition('.')[0]}/{name}", request.SerializeToString())
    try:
        await call
    except grpc.aio.AioRpcError as error:
        if error.code() is grpc.StatusCode.UNIMPLEMENTED:
            return "ok"  # past every check of this table

        refused = refusal_of(error).reason
        return "ok" if refused == "provider_unknown" else refused
    return "ok"


def test_every_method_has_a_rule() -> None:
    assert RULES.keys() == METHODS.keys()


@pytest.mark.parametrize("kind", ["none", "malformed", "token", "unknown", "wrong", "expired", "revoked"])
async def test_a_bad_credential_is_unauthenticated_everywhere(world: World, kind: str) -> None:
    client = await world.client(kind)
    # All at once, since the server holds back the refusals of an address that fails often.
    verdicts = await asyncio.gather(*(_verdict(world, client, name) for name in METHODS))
    assert dict(zip(METHODS, verdicts, strict=True)) == dict.fromkeys(METHODS, "unauthenticated")


async def test_a_caller_of_another_workspace_gets_nothing(world: World) -> None:
    client = await world.client("stranger")
    for name, rule in RULES.items():
        expected = rule.stranger
        if name in ("ListKeys", "ListGrants"):
            expected = "ok"  # an admin sees what it administers, here nothing of w
        if name == "RevokeKey":
            expected = "not_found"
        assert await _verdict(world, client, name) == expected, name


async def test_a_caller_of_another_session_learns_nothing_of_an_ask(world: World) -> None:
    client = await world.client("neighbour")
    for name, rule in RULES.items():
        assert await _verdict(world, client, name) == rule.neighbour, name


@pytest.mark.parametrize("role", sorted(READERS))
@pytest.mark.parametrize("name", sorted(METHODS))
async def test_each_role_may_do_its_own(world: World, role: str, name: str) -> None:
    expected = "ok" if role in RULES[name].roles else "permission_denied"
    assert await _verdict(world, await world.client(role), name) == expected


@pytest.mark.parametrize("role", sorted(READERS))
@pytest.mark.parametrize("name", sorted(METHODS))
async def test_a_role_for_one_session_counts_there_and_manages_no_keys(world: World, role: str, name: str) -> None:
    rule = RULES[name]
    keys_only = rule.roles == {ADMIN}
    expected = "ok" if role in rule.roles and not keys_only else "permission_denied"
    assert await _verdict(world, await world.client(f"{role} of the session"), name) == expected


async def test_lists_and_watches_of_a_session_bound_caller_hold_its_sessions_only(server: Served) -> None:
    admin = server.admin
    ids = {name: (await admin.ask(session_id=name)).id for name in ("s", "other", "third")}
    bound = await admin.with_grants(grant(VIEWER, "w", "s"), grant(VIEWER, "w", "third"))
    assert {ask.id for ask in await bound.list_all()} == {ids["s"], ids["third"]}
    assert await bound.list_all(session_id="other") == []
    async with bound.watch() as watcher:
        assert {event.ask.id for event in await watcher.until_synced()} == {ids["s"], ids["third"]}
        await admin.ask(session_id="other")
        seen = await admin.ask(session_id="third")
        assert [event.ask.id for event in await watcher.events(1)] == [seen.id]


async def test_pages_that_hold_the_same_asks_go_on_where_each_was_asked_for(server: Served) -> None:
    ids = [(await server.admin.ask(session_id="s")).id for _ in range(3)]
    bound = await server.admin.with_grants(grant(VIEWER, "w", "s"))
    for client in (bound, server.admin, bound):  # from the database, and from what is kept of it
        for filters in ({}, {"session_id": "s"}):
            assert [ask.id for ask in await client.list_all(limit=1, **filters)] == ids


async def test_a_session_bound_caller_answers_in_its_session(server: Served) -> None:
    asked = await server.admin.ask()
    bound = await server.admin.with_grants(grant(ANSWERER, "w", "s"))
    answered = await bound.answer(asked.id)
    assert answered.status == ask_pb2.ASK_STATUS_ANSWERED
    assert answered.resolved_by_api_key_id == await bound.key_id()
