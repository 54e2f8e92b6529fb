"""The bare servers that askd is measured against: grpc.aio on uvloop, bytes in and bytes out, nothing between.

`python -m bench.floors` serves on a free port of 127.0.0.1, prints a ready line like askd's and ends on SIGTERM.

- `Echo` returns its request.
- `Watch` opens with one empty message, so that a client knows the stream is registered, then sends every message that
  is pushed.
- `Push` gives its request to every stream at once.
- `PushLater` replies first. A moment afterwards, when the server does nothing else, it gives its request, whose first
  bytes it replaces by the time, to every stream: what passes until a client has it is the cost of one message alone.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import grpc
import uvloop

SERVICE = "bench.Floor"
ECHO, WATCH, PUSH, PUSH_LATER = (f"/{SERVICE}/{name}" for name in ("Echo", "Watch", "Push", "PushLater"))
LATER = 0.001  # seconds; long enough for the reply of PushLater to be out
STAMP_BYTES = 8

# Calls beyond a thousand that come at once would be cancelled.
OPTIONS = [
    ("grpc.so_reuseport", 0),
    ("grpc.server.max_pending_requests", 100_000),
    ("grpc.server.max_pending_requests_hard_limit", 100_000),
]

Context: TypeAlias = "grpc.aio.ServicerContext[bytes, bytes]"


class Floor:
    """The handlers."""

    def __init__(self) -> None:
        self._streams: set[asyncio.Queue[bytes]] = set()

    async def echo(self, request: bytes, context: Context) -> bytes:
        return request

    async def watch(self, request: bytes, context: Context) -> AsyncIterator[bytes]:
        messages: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(messages)
        try:
            yield b""
            while True:
                yield await messages.get()
        finally:
            self._streams.discard(messages)

    async def push(self, request: bytes, context: Context) -> bytes:
        self._publish(request)
        return b""

    async def push_later(self, request: bytes, context: Context) -> bytes:
        asyncio.get_running_loop().call_later(LATER, self._publish_stamped, request)
        return b""

    def _publish_stamped(self, body: bytes) -> None:
        # The monotonic clock is one for all processes of a machine.
        self._publish(time.monotonic_ns().to_bytes(STAMP_BYTES, "big") + body[STAMP_BYTES:])

    def _publish(self, message: bytes) -> None:
        for messages in self._streams:
            messages.put_nowait(message)


def handlers(floor: Floor) -> grpc.GenericRpcHandler:
    """The service without serializers: gRPC hands over bytes as they are."""
    unary, stream = grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        "Echo": unary(floor.echo),
        "Watch": stream(floor.watch),
        "Push": unary(floor.push),
        "PushLater": unary(floor.push_later),
    }
    return grpc.method_handlers_generic_handler(SERVICE, methods)


async def serve() -> None:
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers([handlers(Floor())])
    port = server.add_insecure_port("127.0.0.1:0")
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await server.start()
    print(f"floor ready grpc=127.0.0.1:{port}", flush=True)
    await ended.wait()
    await server.stop(0)


if __name__ == "__main__":
    uvloop.run(serve())
