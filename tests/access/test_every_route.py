"""Every HTTP route by every kind of credential. The routes are the gateway's own: a new one without a rule fails."""

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
from tests.access.issuer import AUDIENCE, ISSUER, Issuer
from tests.access.managing import give, key_for
from tests.clients import PENDING, Client, connected, grant
from tests.gateway.streams import Stream
from tests.processes import configured, serving

from askd.gateway.app import create_app
from askd.gateway.routing import Dispatcher, Route

pytestmark = pytest.mark.asyncio(loop_scope="session")

WORKSPACE, SESSION = "w/ä", "s 1"
ASKER, VIEWER, ANSWERER, ADMIN = ROLES = "asker", "viewer", "answerer", "admin"
READERS = set(ROLES)

# --- how each dialect says no ---


def code_in_a(response: httpx.Response) -> str:
    error = response.json()["error"]
    assert response.json().keys() == {"error"}
    assert error.keys() - {"details"} == {"code", "message"}
    return str(error["code"])


def code_in_b(response: httpx.Response) -> str:
    body = response.json()
    if response.status_code == 404:
        assert body == {"name": "NotFoundError", "data": {"message": body["data"]["message"]}}
        return "not_found"
    [error] = body["errors"]
    [(name, message)] = error.items()
    assert body == {"data": None, "errors": [{name: message}], "success": False}
    return str(name)


TAGS = {
    "UnauthorizedError": "unauthenticated",
    "ForbiddenError": "permission_denied",
    "QuestionNotFoundError": "not_found",
}


def code_in_opencode(response: httpx.Response) -> str:
    body = response.json()
    assert body.keys() - {"requestID"} == {"_tag", "message"}
    return TAGS[body["_tag"]]


STATUSES = {"unauthenticated": 401, "permission_denied": 403, "not_found": 404, "invalid_arguments": 400}

# --- what each route lets in ---


@dataclass(frozen=True, kw_only=True)
class Rule:
    """Whom a route lets in, and what the others are told: about a thing that they cannot see it is not_found."""

    roles: set[str]
    #: How its dialect names the code of a refusal.
    code: Callable[[httpx.Response], str]
    #: What a caller of another workspace, of another session, and one without any grant is told.
    stranger: str = "permission_denied"
    neighbour: str = "permission_denied"
    nobody: str = "permission_denied"
    body: Any = None
    query: dict[str, str] = field(default_factory=dict)


def _a(roles: set[str], stranger: str, neighbour: str, body: Any = None) -> Rule:
    # Its paths name no workspace: a stranger is in its own, and one without grants has none.
    return Rule(
        roles=roles, code=code_in_a, stranger=stranger, neighbour=neighbour, nobody="invalid_arguments", body=body
    )


def _b(roles: set[str], neighbour: str, body: Any = None) -> Rule:
    return Rule(roles=roles, code=code_in_b, neighbour=neighbour, body=body)


def _opencode(roles: set[str], neighbour: str, body: Any = None) -> Rule:
    query = {"workspace": WORKSPACE}
    return Rule(roles=roles, code=code_in_opencode, neighbour=neighbour, body=body, query=query)


_A = "/v1/sessions/{sessionId}/turns/{turnId}/asks"
_B = "/api/v1/workspaces/{workspaceID}/questions"
_REPLY = {"answers": [["Ada"]]}
RULES: dict[tuple[str, str], Rule | None] = {
    ("GET", _A): _a(READERS, "ok", "ok"),
    ("POST", _A): _a({ASKER, ADMIN}, "ok", "permission_denied", {"question": {"prompt": "?", "type": "text"}}),
    ("GET", f"{_A}/{{askId}}"): _a(READERS, "not_found", "not_found"),
    ("POST", f"{_A}/{{askId}}/answer"): _a(
        {ANSWERER, ADMIN}, "not_found", "not_found", {"answer": "Ada", "answerId": "a"}
    ),
    ("GET", _B): _b(READERS, "ok"),
    ("POST", _B): _b(
        {ASKER, ADMIN}, "permission_denied", {"sessionID": SESSION, "questions": [{"question": "Which name?"}]}
    ),
    ("GET", f"{_B}/events"): _b(READERS, "ok"),
    ("POST", f"{_B}/{{requestID}}/reply"): _b({ANSWERER, ADMIN}, "not_found", _REPLY),
    ("POST", f"{_B}/{{requestID}}/reject"): _b({ANSWERER, ADMIN}, "not_found"),
    ("POST", f"{_B}/{{requestID}}/consult"): _b(
        {ANSWERER, ADMIN}, "not_found", {"providerID": "none", "modelID": "none"}
    ),
    ("GET", "/question"): _opencode(READERS, "ok"),
    ("POST", "/question/{requestID}/reply"): _opencode({ANSWERER, ADMIN}, "not_found", _REPLY),
    ("POST", "/question/{requestID}/reject"): _opencode({ANSWERER, ADMIN}, "not_found"),
    ("GET", "/event"): _opencode(READERS, "ok"),
    # None: open to all.
    ("GET", "/healthz"): None,
    ("GET", "/readyz"): None,
    ("GET", "/metrics"): None,
    ("GET", "/openapi.json"): None,
    ("GET", "/docs"): None,
}
GUARDED = {route: rule for route, rule in RULES.items() if rule is not None}
#: The refusal that consulting ends with once every check of this table is passed.
PASSED = {"providerID": "ok"}


async def test_every_route_has_a_rule() -> None:
    app = create_app("127.0.0.1:1")
    [dispatcher] = app.router.routes
    assert isinstance(dispatcher, Dispatcher), "a route beside the dispatcher would be in no dialect"
    routes: list[Route] = [route for dialect in app.dialects for route in dialect.routes]
    await app.close()
    assert {(route.method, route.path): route.guarded for route in routes} == {
        route: rule is not None for route, rule in RULES.items()
    }


# --- the credentials ---

BAD_HEADERS = ("none", "other scheme", "no value", "no base64", "no colon", "twice")
BAD_KEYS = ("malformed", "unknown", "wrong", "expired", "revoked")
BAD_TOKENS = ("unsigned token", "expired token", "other audience's token", "other key's token")


@dataclass(frozen=True, kw_only=True)
class World:
    """A server of HTTP and gRPC with a credential of each kind."""

    admin: Client
    http: httpx.AsyncClient
    credentials: dict[str, str]

    async def verdict(self, route: tuple[str, str], headers: list[tuple[str, str]], ask_id: str = "que_x") -> str:
        """The code of the refusal, or ok."""
        method, path = route
        rule = GUARDED[route]
        values = {"sessionId": SESSION, "turnId": "t", "workspaceID": WORKSPACE, "askId": ask_id, "requestID": ask_id}
        url = path.format_map({name: quote(value, safe="") for name, value in values.items()})
        async with self.http.stream(method, url, headers=headers, json=rule.body, params=rule.query) as response:
            if response.headers["content-type"].startswith("text/event-stream"):
                await Stream(response).event()
                return "ok"
            await response.aread()
            return _verdict(response, rule)

    async def asked(self, turn: str = "t") -> str:
        """The id of a new ask."""
        return (await self.admin.ask(workspace_id=WORKSPACE, session_id=SESSION, turn_id=turn)).id


def _verdict(response: httpx.Response, rule: Rule) -> str:
    assert response.headers["content-type"] == "application/json"
    if response.is_success:
        return "ok"
    code = rule.code(response)
    assert response.status_code == (400 if code in PASSED else STATUSES[code])
    assert ("www-authenticate" in response.headers) == (code == "unauthenticated")
    return PASSED.get(code, code)


@pytest.fixture(scope="module")
def issuer() -> Issuer:
    return Issuer()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def world(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> AsyncIterator[World]:
    data = configured(tmp_path_factory.mktemp("routes") / "data", users(tmp_path_factory.mktemp("issuer"), issuer))
    listen = ("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")
    with serving(data, listen=listen) as process:
        url = f"http://{process.ready.rpartition('http=')[2]}"
        async with connected(process.address, process.credential) as admin, httpx.AsyncClient(base_url=url) as http:
            yield World(admin=admin, http=http, credentials=await credentials(admin, issuer))


def users(folder: Path, issuer: Issuer) -> str:
    """The settings of an issuer whose keys lie in a file."""
    jwks = folder / "jwks.json"
    jwks.write_text(json.dumps(issuer.key_set()))
    return f'[users]\nissuer = "{ISSUER}"\naudience = "{AUDIENCE}"\njwks = "{jwks}"\nalgorithms = ["ES256"]\n'


async def credentials(admin: Client, issuer: Issuer) -> dict[str, str]:
    """A credential of each kind; those that are not good were once, or are nearly."""

    async def key(*roles: str, workspace: str = WORKSPACE, session: str = "") -> str:
        return (await admin.create_key(*(grant(role, workspace, session) for role in roles))).secret

    good = await key(ADMIN)
    revoked = await admin.create_key(grant(ADMIN, WORKSPACE))
    await admin.revoke_key(revoked.key.id)
    expired = (await key_for(admin, 0.001, grant(ADMIN, WORKSPACE))).secret
    for role, user in ((ADMIN, "ada"), (ANSWERER, "bob")):
        await give(admin, f"user:{user}", grant(role, WORKSPACE))
    return {
        "malformed": "askd_",
        "unknown": "askd_" + "0" * 90,
        "wrong": good[:-1] + ("0" if good[-1] != "0" else "1"),
        "expired": expired,
        "revoked": revoked.secret,
        "unsigned token": "eyJhbGciOiJub25lIn0.e30.",
        "expired token": issuer.token(exp=time.time() - 1),
        "other audience's token": issuer.token(aud="other"),
        "other key's token": Issuer().token(headers={"kid": issuer.newest}),
        "stranger": await key(ADMIN, workspace="elsewhere"),
        "neighbour": await key(ANSWERER, ASKER, session="other"),
        "nobody": issuer.token("eve"),
        "user": issuer.token("bob"),
        **{role: await key(role) for role in ROLES},
        **{f"{role} of the session": await key(role, session=SESSION) for role in ROLES},
    }


def bearer(credential: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {credential}")]


def basic(credential: str) -> list[tuple[str, str]]:
    return [("authorization", f"Basic {base64.b64encode(f'user:{credential}'.encode()).decode()}")]


SCHEMES = (bearer, basic)


def bad_headers(kind: str, good: str) -> list[tuple[str, str]]:
    """Headers that hold no credential, however good the one in them would be."""
    return {
        "none": [],
        "other scheme": [("authorization", f"Digest {good}")],
        "no value": [("authorization", "Bearer")],
        "no base64": [("authorization", f"Basic {good}")],
        "no colon": [("authorization", f"Basic {base64.b64encode(good.encode()).decode()}")],
        "twice": bearer(good) * 2,
    }[kind]


# --- the table ---


@pytest.mark.parametrize("kind", [*BAD_HEADERS, *BAD_KEYS, *BAD_TOKENS])
async def test_a_bad_credential_is_unauthenticated_everywhere(world: World, kind: str) -> None:
    ask_id = await world.asked()
    if kind in world.credentials:
        tried = [scheme(world.credentials[kind]) for scheme in SCHEMES]
    else:
        tried = [bad_headers(kind, world.credentials[ADMIN])]
    # All at once, since the server holds back the refusals of an address that fails often.
    calls = [(route, headers) for route in GUARDED for headers in tried]
    verdicts = await asyncio.gather(*(world.verdict(route, headers, ask_id) for route, headers in calls))
    wrong = [call for call, verdict in zip(calls, verdicts, strict=True) if verdict != "unauthenticated"]
    assert not wrong
    assert (await world.admin.get(ask_id, workspace_id=WORKSPACE)).status == PENDING


@pytest.mark.parametrize("kind", ["stranger", "neighbour", "nobody"])
async def test_a_caller_without_a_grant_is_let_into_its_own_only(world: World, kind: str) -> None:
    ask_id = await world.asked()
    for route, rule in GUARDED.items():
        for scheme in SCHEMES:
            verdict = await world.verdict(route, scheme(world.credentials[kind]), ask_id)
            assert verdict == getattr(rule, kind), route


@pytest.mark.parametrize("kind", [*ROLES, *(f"{role} of the session" for role in ROLES), "user"])
async def test_each_role_may_do_its_own(world: World, kind: str) -> None:
    role = ANSWERER if kind == "user" else kind.split()[0]
    for route, rule in GUARDED.items():
        for scheme in SCHEMES:
            verdict = await world.verdict(route, scheme(world.credentials[kind]), await world.asked())
            assert verdict == ("ok" if role in rule.roles else "permission_denied"), route


async def test_open_routes_take_any_credential_or_none(world: World) -> None:
    tried = [[], *(scheme(credential) for credential in world.credentials.values() for scheme in SCHEMES)]
    for method, path in RULES.keys() - GUARDED.keys():
        for headers in tried:
            assert (await world.http.request(method, path, headers=headers)).status_code == 200, path


@pytest.mark.parametrize("kind", ["stranger", "neighbour"])
async def test_lists_show_nothing_of_others(world: World, kind: str) -> None:
    ask_id, workspace = await world.asked(kind), quote(WORKSPACE, safe="")
    in_a = f"/v1/sessions/{quote(SESSION)}/turns/{kind}/asks"
    for url in (in_a, "/question", f"/question?workspace={workspace}", f"/api/v1/workspaces/{workspace}/questions"):
        shown = await world.http.get(url, headers=bearer(world.credentials[ADMIN]))
        assert ask_id in shown.text
        other = await world.http.get(url, headers=bearer(world.credentials[kind]))
        assert ask_id not in other.text


@pytest.mark.parametrize("route", [route for route in GUARDED if route[1].endswith(("/answer", "/reply"))])
async def test_the_user_who_answered_is_shown(world: World, route: tuple[str, str]) -> None:
    ask_id = await world.asked()
    assert await world.verdict(route, bearer(world.credentials["user"]), ask_id) == "ok"
    url = f"/v1/sessions/{quote(SESSION)}/turns/t/asks/{ask_id}"
    shown = (await world.http.get(url, headers=bearer(world.credentials["user"]))).json()
    assert shown["answeredByUserId"] == "bob"
    assert "answeredByApiKeyId" not in shown
