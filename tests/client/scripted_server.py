"""A server in the test's own loop that does what a test tells it: for what no real server does on demand."""

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from itertools import repeat
from typing import Any

import grpc
from google.protobuf import any_pb2, duration_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from askd.v1.ask_service_pb2_grpc import AskServiceServicer, add_AskServiceServicer_to_server
from askd.v1.key_service_pb2_grpc import KeyServiceServicer, add_KeyServiceServicer_to_server
from askd.v1.session_service_pb2_grpc import SessionServiceServicer, add_SessionServiceServicer_to_server

#: What a call does that never ends.
HANG = "hang"


class Script:
    """What the calls to come do, one after the other: a response, a status to fail with, HANG, or a coroutine function
    that returns one of these; for a stream a list. `requests` are the requests that came; `called` is set by the first.
    """

    def __init__(self, *steps: Any) -> None:
        self._steps: Iterator[Any] = iter(steps)
        self.requests: list[Any] = []
        self.called = asyncio.Event()

    @classmethod
    def always(cls, step: Any) -> "Script":
        """What every call does, however many come: where a channel decides when it tries again."""
        script = cls()
        script._steps = repeat(step)
        return script

    async def reply(self, request: Any, context: Any) -> Any:
        """Serve a unary call."""
        self.requests.append(request)
        self.called.set()
        return await _do(next(self._steps), context)

    async def stream(self, request: Any, context: Any) -> AsyncIterator[Any]:
        """Serve a stream, which stays open after its last step."""
        self.requests.append(deepcopy(request))
        for step in next(self._steps):
            yield await _do(step, context)
        await asyncio.Event().wait()


async def _do(step: Any, context: Any) -> Any:
    if inspect.iscoroutinefunction(step):
        step = await step()
    if step == HANG:
        await asyncio.Event().wait()
    if isinstance(step, grpc.StatusCode):
        await context.abort(step, "no details")
    if isinstance(step, status_pb2.Status):
        await context.abort_with_status(rpc_status.to_status(step))
    return step


def failure(status: grpc.StatusCode, reason: str, /, *, field: str = "", retry: float = 0, **metadata: str) -> Any:
    """A status with the details that askd gives; `retry` in seconds."""
    details: list[Any] = [error_details_pb2.ErrorInfo(reason=reason, domain="askd", metadata=metadata)]
    if field:
        violation = error_details_pb2.BadRequest.FieldViolation(field=field)
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if retry:
        delay = duration_pb2.Duration(nanos=int(retry * 1_000_000_000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return status_pb2.Status(code=status.value[0], message="why", details=_packed(details))


def _packed(details: Sequence[Any]) -> Sequence[any_pb2.Any]:
    packed = [any_pb2.Any() for _ in details]
    for target, detail in zip(packed, details, strict=True):
        target.Pack(detail)
    return packed


@asynccontextmanager
async def serving(**scripts: Script) -> AsyncIterator[str]:
    """A server whose methods, by their names, follow scripts; its address."""
    server = grpc.aio.server()
    for service, add in (
        (AskServiceServicer, add_AskServiceServicer_to_server),
        (KeyServiceServicer, add_KeyServiceServicer_to_server),
        (SessionServiceServicer, add_SessionServiceServicer_to_server),
    ):
        calls = {
            name: script.stream if name == "WatchAsks" else script.reply
            for name, script in scripts.items()
            if hasattr(service, name)
        }
        add(type("Scripted", (service,), calls)(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)
