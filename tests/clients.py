"""Clients over the generated stubs, and what refusals say to them."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import grpc
import pytest
from google.protobuf import duration_pb2
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status
from tests.questions import text, text_question

from askd.v1 import ask_pb2, error_reason_pb2, key_service_pb2
from askd.v1 import ask_service_pb2 as pb
from askd.v1.ask_service_pb2_grpc import AskServiceStub
from askd.v1.key_service_pb2_grpc import KeyServiceStub

if TYPE_CHECKING:
    from askd.v1.ask_service_pb2_grpc import AskServiceAsyncStub
    from askd.v1.key_service_pb2_grpc import KeyServiceAsyncStub

#: Seconds that anything in a test may take that is due at once.
LIMIT = 10.0
MIB = 1024 * 1024

PENDING = ask_pb2.ASK_STATUS_PENDING
ANSWERED = ask_pb2.ASK_STATUS_ANSWERED
REJECTED = ask_pb2.ASK_STATUS_REJECTED
CANCELLED = ask_pb2.ASK_STATUS_CANCELLED

#: Each channel has a connection of its own, and tries at once to connect again.
_OPTIONS: list[tuple[str, Any]] = [
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
]


def grant(role: str, workspace_id: str = "*", session_id: str = "") -> key_service_pb2.Grant:
    """A grant of a role that is named in lower case."""
    number = key_service_pb2.Role.Value(f"ROLE_{role.upper()}")
    return key_service_pb2.Grant(role=number, workspace_id=workspace_id, session_id=session_id)


class Client:
    """Calls one server with one credential. Where a test names none, the workspace is "w" and the session "s"."""

    def __init__(self, channel: grpc.aio.Channel, credential: str | None) -> None:
        self.channel = channel
        #: Seconds that a call may take.
        self.limit = LIMIT
        self.metadata = (("authorization", f"Bearer {credential}"),) if credential else ()
        self.asks: AskServiceAsyncStub = AskServiceStub(channel)
        self.keys: KeyServiceAsyncStub = KeyServiceStub(channel)

    def other(self, credential: str | None) -> "Client":
        """The same connection with another credential."""
        return Client(self.channel, credential)

    async def ask(self, *questions: ask_pb2.Question, **fields: Any) -> ask_pb2.AskState:
        fields = {"workspace_id": "w", "session_id": "s"} | fields
        request = pb.AskRequest(questions=questions or [text_question()], **fields)
        return (await self.asks.Ask(request, metadata=self.metadata, timeout=self.limit)).ask

    async def get(self, ask_id: str, **fields: Any) -> ask_pb2.AskState:
        request = pb.GetAskRequest(ask_id=ask_id, **{"workspace_id": "w"} | fields)
        return (await self.asks.GetAsk(request, metadata=self.metadata, timeout=self.limit)).ask

    async def page(self, **fields: Any) -> pb.ListAsksResponse:
        request = pb.ListAsksRequest(**{"workspace_id": "w"} | fields)
        return await self.asks.ListAsks(request, metadata=self.metadata, timeout=self.limit)

    async def pages(self, **fields: Any) -> list[pb.ListAsksResponse]:
        """Every page from the first on."""
        pages = [await self.page(**fields)]
        while pages[-1].next_cursor:
            pages.append(await self.page(**fields, cursor=pages[-1].next_cursor))
        return pages

    async def list_all(self, **fields: Any) -> list[ask_pb2.AskState]:
        return [ask for page in await self.pages(**fields) for ask in page.asks]

    async def answer(
        self, ask_id: str, *answers: ask_pb2.AnswerSubmission, answer_id: str = "a1", **fields: Any
    ) -> ask_pb2.AskState:
        fields = {"workspace_id": "w"} | fields
        request = pb.AnswerAskRequest(ask_id=ask_id, answers=answers or [text()], answer_id=answer_id, **fields)
        return (await self.asks.AnswerAsk(request, metadata=self.metadata, timeout=self.limit)).ask

    async def reject(self, ask_id: str, **fields: Any) -> ask_pb2.AskState:
        request = pb.RejectAskRequest(ask_id=ask_id, **{"workspace_id": "w"} | fields)
        return (await self.asks.RejectAsk(request, metadata=self.metadata, timeout=self.limit)).ask

    async def cancel(self, ask_id: str, **fields: Any) -> ask_pb2.AskState:
        request = pb.CancelAskRequest(ask_id=ask_id, **{"workspace_id": "w"} | fields)
        return (await self.asks.CancelAsk(request, metadata=self.metadata, timeout=self.limit)).ask

    async def wait(
        self, ask_id: str, seconds: float | None = None, *, deadline: float | None = LIMIT, **fields: Any
    ) -> ask_pb2.AskState:
        """WaitAsk with a timeout in the request, or none, and a deadline of the call, or none."""
        request = pb.WaitAskRequest(ask_id=ask_id, timeout=span(seconds), **{"workspace_id": "w"} | fields)
        return (await self.asks.WaitAsk(request, metadata=self.metadata, timeout=deadline)).ask

    async def validate(self, question: ask_pb2.Question) -> None:
        request = pb.ValidateQuestionRequest(question=question)
        await self.asks.ValidateQuestion(request, metadata=self.metadata, timeout=self.limit)

    def watch(self, **fields: Any) -> "Watcher":
        request = pb.WatchAsksRequest(**{"workspace_id": "w"} | fields)
        return Watcher(self.asks.WatchAsks(request, metadata=self.metadata))

    async def create_key(self, *grants: key_service_pb2.Grant, name: str = "") -> key_service_pb2.CreateKeyResponse:
        request = key_service_pb2.CreateKeyRequest(name=name, grants=grants)
        return await self.keys.CreateKey(request, metadata=self.metadata, timeout=self.limit)

    async def with_grants(self, *grants: key_service_pb2.Grant) -> "Client":
        """The same connection with a new key."""
        return self.other((await self.create_key(*grants)).secret)

    async def list_keys(self) -> list[key_service_pb2.ApiKey]:
        request = key_service_pb2.ListKeysRequest()
        return list((await self.keys.ListKeys(request, metadata=self.metadata, timeout=self.limit)).keys)

    async def revoke_key(self, key_id: str) -> key_service_pb2.ApiKey:
        request = key_service_pb2.RevokeKeyRequest(key_id=key_id)
        return (await self.keys.RevokeKey(request, metadata=self.metadata, timeout=self.limit)).key

    async def who_am_i(self) -> key_service_pb2.WhoAmIResponse:
        request = key_service_pb2.WhoAmIRequest()
        return await self.keys.WhoAmI(request, metadata=self.metadata, timeout=self.limit)

    async def key_id(self) -> str:
        return (await self.who_am_i()).principal.removeprefix("key:")

    async def health(self, service: str = "") -> str:
        """The name of a service's health, asked without a credential."""
        stub = health_pb2_grpc.HealthStub(self.channel)
        response = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=self.limit)
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))

    async def send(self, method: str, request: bytes) -> bytes:
        """A call of any method with any bytes. Streams are read to their first response."""
        path = method if method.startswith("/") else f"/askd.v1.AskService/{method}"
        if path.endswith("/WatchAsks"):
            stream: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(path)
            call = stream(request, metadata=self.metadata, timeout=self.limit)
            response = await call.read()
            call.cancel()
            assert isinstance(response, bytes)
            return response
        unary: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        return await unary(request, metadata=self.metadata, timeout=self.limit)


def span(seconds: float | None) -> duration_pb2.Duration | None:
    """A span of protobuf; None stays unset."""
    if seconds is None:
        return None
    whole = int(seconds)
    return duration_pb2.Duration(seconds=whole, nanos=round((seconds - whole) * 1e9))


@asynccontextmanager
async def connected(address: str, credential: str | None) -> AsyncIterator[Client]:
    """A client with a connection of its own."""
    async with grpc.aio.insecure_channel(address, options=_OPTIONS) as channel:
        yield Client(channel, credential)


class Watcher:
    """One WatchAsks stream. Every response is held to what all of them promise."""

    def __init__(self, call: "grpc.aio.UnaryStreamCall[pb.WatchAsksRequest, pb.WatchAsksResponse]") -> None:
        self.call = call
        #: Where to resume, as the last response said.
        self.revision: int | None = None
        self.synced = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.call.cancel()

    async def response(self, limit: float = LIMIT) -> pb.WatchAsksResponse:
        """The next response; the stream's end is an AioRpcError."""
        response = await asyncio.wait_for(self.call.read(), limit)
        assert isinstance(response, pb.WatchAsksResponse), f"the stream ended with {await self.call.code()}"
        self._check(response)
        return response

    def _check(self, response: pb.WatchAsksResponse) -> None:
        assert response.ByteSize() <= 3 * MIB
        assert not (self.synced and response.synced), "synced twice"
        self.synced = self.synced or response.synced
        if response.HasField("revision"):
            assert response.revision >= (self.revision or 0), "the revision went back"
            assert all(event.revision <= response.revision for event in response.events)
            self.revision = response.revision

    async def until_synced(self) -> list[ask_pb2.AskEvent]:
        """The events up to the response that says synced."""
        events: list[ask_pb2.AskEvent] = []
        while not self.synced:
            events += (await self.response()).events
        return events

    async def events(self, count: int) -> list[ask_pb2.AskEvent]:
        """The next events, which are exactly so many by then."""
        events: list[ask_pb2.AskEvent] = []
        while len(events) < count:
            events += (await self.response()).events
        assert len(events) == count
        return events

    async def end(self) -> "Refusal":
        """What the stream ends with, after whatever it still says."""

        async def read_on() -> None:
            while True:
                await self.response()

        return await refusal(read_on())


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """What a refused call says."""

    status: grpc.StatusCode
    message: str
    reason: str
    metadata: dict[str, str]
    fields: tuple[str, ...]
    resource: tuple[str, str] | None
    retry_after: float | None
    #: Bytes of the details as they were sent.
    size: int


async def refusal(call: Awaitable[object]) -> Refusal:
    """How a call is refused."""
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return refusal_of(raised.value)


def refusal_of(error: grpc.aio.AioRpcError) -> Refusal:
    """What an error says, held to what section 6 promises of all."""
    raw = [value for key, value in error.trailing_metadata() or () if key == "grpc-status-details-bin"]
    assert raw, f"{error.code()} without details: {error.details()}"
    status = rpc_status.from_call(error)
    assert status is not None
    said = _unpacked(status)
    info = said[error_details_pb2.ErrorInfo]
    assert info.domain == "askd"
    assert f"ERROR_REASON_{info.reason}" in error_reason_pb2.ErrorReason.keys()  # noqa: SIM118  # no dictionary
    resource = said.get(error_details_pb2.ResourceInfo)
    retry = said.get(error_details_pb2.RetryInfo)
    request = said.get(error_details_pb2.BadRequest)
    refused = Refusal(
        status=error.code(),
        message=error.details() or "",
        reason=info.reason.lower(),
        metadata=dict(info.metadata),
        fields=tuple(violation.field for violation in request.field_violations) if request else (),
        resource=(resource.resource_type, resource.resource_name) if resource else None,
        retry_after=retry.retry_delay.ToMilliseconds() / 1000 if retry else None,
        size=len(raw[0]),
    )
    _check(refused)
    return refused


def _unpacked(status: Any) -> dict[type, Any]:
    """The details by their type, of which there is one each."""
    said: dict[type, Any] = {}
    for detail in status.details:
        kind = getattr(error_details_pb2, detail.TypeName().rpartition(".")[2])
        assert kind not in said
        said[kind] = kind.FromString(detail.value)
    return said


def _check(refused: Refusal) -> None:
    assert refused.size < 4096
    assert refused.message
    assert (refused.reason == "not_found") == (refused.resource is not None)
    assert (refused.reason in ("unavailable", "rate_limited")) == (refused.retry_after is not None)
    for secret in ("Traceback", "sqlite", "SELECT", "askd.db"):
        assert secret not in refused.message
