"""A server that is away, slow or strange, and clients that leave."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import httpx
import pytest
from tests.client.scripted_server import Script, failure, serving
from tests.conditions import eventually
from tests.gateway.places import Place, asks, bearer, calling, gateway_to, path
from tests.gateway.streams import listening
from tests.processes import ServerProcess

from askd.gateway.settings import GatewaySettings
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.v1.ask_service_pb2_grpc import AskServiceServicer, add_AskServiceServicer_to_server

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTIONS = path("api", "v1", "workspaces", "w", "questions")
PENDING = pb.AskState(id="que_1", session_id="s", turn_id="t", status=pb.ASK_STATUS_PENDING)
#: One request of every route that needs the server.
REQUESTS: list[tuple[str, str, Any]] = [
    ("GET", asks(), None),
    ("POST", asks(), {"question": {"prompt": "?", "type": "text"}}),
    ("GET", asks("q"), None),
    ("GET", f"{asks('q')}?wait=60", None),
    ("POST", asks("q", "answer"), {"answer": "x", "answerId": "a"}),
    ("GET", QUESTIONS, None),
    ("POST", QUESTIONS, {"sessionID": "s", "questions": [{"question": "?"}]}),
    ("GET", f"{QUESTIONS}/events", None),
    ("POST", f"{QUESTIONS}/q/reply", {"answers": [["x"]]}),
    ("POST", f"{QUESTIONS}/q/reject", None),
    ("POST", f"{QUESTIONS}/q/consult", {"providerID": "p", "modelID": "m"}),
    ("GET", "/question", None),
    ("POST", "/question/q/reply", {"answers": [["x"]]}),
    ("POST", "/question/q/reject", None),
    ("GET", "/event", None),
]


async def refused_port() -> str:
    """An address that nobody listens on."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    return f"127.0.0.1:{port}"


@asynccontextmanager
async def in_front_of(settings: GatewaySettings | None = None, **scripts: Script) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway in front of a server that follows scripts."""
    async with (
        serving(**scripts) as address,
        gateway_to(address, settings) as gateway,
        calling(gateway, bearer("x")) as http,
    ):
        yield http


async def test_a_server_that_is_away() -> None:
    async with gateway_to(await refused_port()) as gateway, calling(gateway, bearer("x")) as http:
        for method, url, body in REQUESTS:
            response = await http.request(method, url, json=body)
            assert response.status_code == 503, url
            assert response.headers["retry-after"] == "1"
            assert response.headers["content-type"] == "application/json"
            assert "127.0.0.1" not in response.text
            assert "unavailable" in response.text or response.json()["_tag"] == "ServiceUnavailableError"


CODES = [
    (grpc.StatusCode.INVALID_ARGUMENT, "CONTENT_LIMIT_EXCEEDED", 400, 400),
    (grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED", 401, 401),
    (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED", 403, 403),
    (grpc.StatusCode.NOT_FOUND, "NOT_FOUND", 404, 404),
    (grpc.StatusCode.FAILED_PRECONDITION, "ASK_ALREADY_RESOLVED", 409, 400),
    (grpc.StatusCode.FAILED_PRECONDITION, "TURN_ENDED", 409, 409),
    (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_ENDED", 409, 409),
    (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_NOT_ROOT", 409, 409),
    (grpc.StatusCode.FAILED_PRECONDITION, "OUTPUT_BUDGET_EXCEEDED", 409, 409),
    (grpc.StatusCode.ALREADY_EXISTS, "REQUEST_ID_CONFLICT", 409, 409),
    (grpc.StatusCode.OUT_OF_RANGE, "REVISION_COMPACTED", 410, 410),
    (grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", 429, 429),
    (grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", 503, 503),
    (grpc.StatusCode.DEADLINE_EXCEEDED, "DEADLINE_EXCEEDED", 504, 504),
    (grpc.StatusCode.INTERNAL, "OF_TOMORROW", 500, 500),
]


@pytest.mark.parametrize(("status", "reason", "in_a", "in_b"), CODES)
async def test_every_code_has_its_status(status: grpc.StatusCode, reason: str, in_a: int, in_b: int) -> None:
    outcome = failure(status, reason, retry=0.1 if reason in ("UNAVAILABLE", "RATE_LIMITED") else 0)
    async with in_front_of(ListAsks=Script(outcome, outcome)) as http:
        a, b = await http.get(asks()), await http.get(QUESTIONS)
    assert (a.status_code, b.status_code) == (in_a, in_b)
    assert a.json()["error"] == {"code": reason.lower(), "message": "why"}
    assert (a.headers.get("retry-after") is not None) == (in_a in (429, 503))


@pytest.mark.parametrize("status", [code for code in grpc.StatusCode if code is not grpc.StatusCode.OK])
async def test_what_grpc_itself_says_is_not_passed_on(status: grpc.StatusCode) -> None:
    async with in_front_of(ListAsks=Script(status)) as http:
        response = await http.get(asks())
    assert response.status_code >= 400
    assert "no details" not in response.text


class Lasting(Script):
    """Calls that last until they are cancelled, which is counted."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = 0
        self.cancelled = 0

    async def reply(self, request: Any, context: Any) -> Any:
        """Serve a unary call."""
        self.begun += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Serve a watch."""
        yield rpc.WatchAsksResponse(revision=1, synced=True)
        await self.reply(request, context)


async def test_a_server_that_does_not_answer_in_time() -> None:
    settings = GatewaySettings(call_timeout=0.2)
    async with in_front_of(settings, GetAsk=Lasting()) as http:
        response = await http.get(asks("q"))
    assert (response.status_code, response.json()["error"]["code"]) == (504, "deadline_exceeded")


@pytest.mark.parametrize(
    ("method", "url", "body"),
    [
        ("GET", f"{asks('q')}?wait=60", None),
        ("GET", asks(), None),
        ("GET", QUESTIONS, None),
        ("POST", f"{QUESTIONS}/q/consult", {"providerID": "p", "modelID": "m"}),
        ("GET", f"{QUESTIONS}/events", None),
        ("GET", "/event", None),
    ],
)
async def test_a_client_that_leaves_cancels_its_call(method: str, url: str, body: Any) -> None:
    lasting = Lasting()
    got = Script(rpc.GetAskResponse(ask=PENDING))
    scripts = {"GetAsk": got} | dict.fromkeys(("WaitAsk", "ListAsks", "ConsultAsk", "WatchAsks"), lasting)
    async with serving(**scripts) as address, gateway_to(address) as gateway:
        async with calling(gateway, bearer("x")) as http:
            request = asyncio.create_task(fully_read(http, method, url, body))
            await eventually(lambda: lasting.begun > 0)
            request.cancel()
        await eventually(lambda: 0 < lasting.cancelled == lasting.begun)


async def fully_read(http: httpx.AsyncClient, method: str, url: str, body: Any) -> None:
    async with http.stream(method, url, json=body) as response:
        async for _ in response.aiter_raw():
            pass


async def test_a_call_carries_the_callers_credential_and_address() -> None:
    seen: list[tuple[str, Any]] = []

    class Looking(Script):
        async def reply(self, request: Any, context: Any) -> Any:
            seen.extend(context.invocation_metadata())
            return rpc.ListAsksResponse()

    async with in_front_of(ListAsks=Looking()) as http:
        await http.get(asks(), headers={"askd-peer": "198.51.100.1"})
    assert ("authorization", "Bearer x") in seen
    assert [value for key, value in seen if key == "askd-peer"] == ["127.0.0.1"]


async def test_a_list_whose_later_page_fails_breaks_off(caplog: pytest.LogCaptureFixture) -> None:
    page = rpc.ListAsksResponse(asks=[PENDING], next_cursor="c")
    listing = Script(page, grpc.StatusCode.UNAVAILABLE)
    async with in_front_of(ListAsks=listing) as http:
        with caplog.at_level(logging.CRITICAL), pytest.raises(httpx.RemoteProtocolError):
            await http.get(QUESTIONS)
    assert [request.cursor for request in listing.requests] == ["", "c"]


async def test_a_client_that_leaves_a_long_list_ends_it() -> None:
    ask = pb.AskState(id="que_1", questions=[pb.Question(prompt=[pb.ContentPart(text="x" * 100_000)])])
    page = rpc.ListAsksResponse(asks=[ask] * 10, next_cursor="more")
    endless = Script.always(page)
    async with serving(ListAsks=endless) as address, gateway_to(address) as gateway:
        async with calling(gateway, bearer("x")) as http, http.stream("GET", QUESTIONS) as response:
            await anext(response.aiter_raw())
            await eventually(lambda: len(endless.requests) >= 2)
        await eventually(lambda: not gateway._uvicorn.server_state.tasks)


async def test_a_bug_is_a_500_without_a_trace(caplog: pytest.LogCaptureFixture) -> None:
    broken = pb.AskState(id="que_1", status=99, turn_id="t")  # type: ignore[arg-type]  # a status of tomorrow
    outcome = rpc.GetAskResponse(ask=broken)
    async with in_front_of(GetAsk=Script(outcome)) as http:
        response = await http.get(asks("q"))
    assert response.status_code == 500
    assert response.json() == {"error": {"code": "internal", "message": "internal error"}}
    assert "KeyError" in caplog.text


async def test_a_server_that_comes_back_is_found_within_seconds() -> None:
    address = await refused_port()

    async def serves() -> bool:
        return (await http.get(asks())).status_code == 200

    async with gateway_to(address) as gateway, calling(gateway, bearer("x")) as http:
        for _ in range(5):
            assert not await serves()
        server = grpc.aio.server()
        answering = type("Answering", (AskServiceServicer,), {"ListAsks": Script(rpc.ListAsksResponse()).reply})
        add_AskServiceServicer_to_server(answering(), server)
        server.add_insecure_port(address)
        await server.start()
        await eventually(serves, within=5)
        await server.stop(0)


async def test_one_gateway_stops_while_another_listens(askd: ServerProcess, place: Place) -> None:
    async with gateway_to(askd.address) as first, gateway_to(askd.address) as second:
        assert first.address != second.address
        async with (
            calling(second, bearer(place.credential)) as http,
            listening(http, place.questions("events")) as stream,
        ):
            await stream.until("synced")
            await first.stop()
            await place.ask()
            assert (await stream.event()).name == "asked"
