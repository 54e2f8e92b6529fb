"""The client's side of gRPC, one for askd and for the bare server: bytes out, bytes in, the same metadata for both."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any

import grpc

from askd.cli.timing import repeat
from bench.plan import Task

Call = Callable[[bytes], Awaitable[bytes]]
Slice = Callable[[], Awaitable[float]]


@dataclass(frozen=True, slots=True)
class Connection:
    """One HTTP/2 connection of its own."""

    channel: grpc.aio.Channel
    metadata: tuple[tuple[str, str], ...]

    def unary(self, path: str) -> Call:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self.channel.unary_unary(path)
        metadata = self.metadata

        def call(request: bytes) -> Awaitable[bytes]:
            return method(request, metadata=metadata)

        return call

    def stream(self, path: str, request: bytes) -> "Stream":
        method: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = self.channel.unary_stream(path)
        return Stream(method(request, metadata=self.metadata))


class Stream:
    """A server's stream of messages."""

    def __init__(self, call: "grpc.aio.UnaryStreamCall[bytes, bytes]") -> None:
        self._call = call

    def cancel(self) -> None:
        self._call.cancel()

    async def read(self) -> bytes:
        """The next message. A stream that ends is a failure here."""
        message: Any = await self._call.read()
        if not isinstance(message, bytes):
            raise EOFError(f"the stream ended: {await self._call.code()} {await self._call.details()}")
        return message


@asynccontextmanager
async def connect(address: str, credential: str) -> AsyncIterator[Connection]:
    """A connection. The bare server is sent the credential too, so that both calls are the same on the wire."""
    # Without a pool of its own a channel would share the connection of every other channel to the same address.
    options = [("grpc.use_local_subchannel_pool", 1)]
    async with grpc.aio.insecure_channel(address, options=options) as channel:
        await channel.channel_ready()
        yield Connection(channel, (("authorization", f"Bearer {credential}"),))


@asynccontextmanager
async def connect_both(task: Task) -> AsyncIterator[tuple[Connection, Connection]]:
    """Connections to the base and to askd."""
    credential = task.askd.credential
    async with (
        connect(task.base.address, task.base.credential or credential) as base,
        connect(task.askd.address, credential) as ours,
    ):
        yield base, ours


async def calls_per_second(call: Call, requests: Sequence[bytes], seconds: float) -> float:
    """How many calls complete a second when the requests are sent in turn, as many at a time as there are."""
    count = len(requests)
    return (await repeat(lambda n: call(requests[n % count]), concurrent=count, seconds=seconds)).rate


async def seconds_of(call: Call, request: bytes) -> float:
    begin = time.perf_counter()
    await call(request)
    return time.perf_counter() - begin


async def median_seconds(call: Call, requests: Sequence[bytes]) -> float:
    """The median duration of the calls, made one at a time."""
    return median([await seconds_of(call, request) for request in requests])


async def take_turns(pairs: int, base: Slice, askd: Slice) -> tuple[list[float], list[float]]:
    """A slice of the base, one of askd, the base again, and so on, after one of each that does not count."""
    await base()
    await askd()
    figures: tuple[list[float], list[float]] = ([], [])
    for _ in range(pairs):
        figures[0].append(await base())
        figures[1].append(await askd())
    return figures
