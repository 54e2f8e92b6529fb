"""What askd's server relies on in grpcio. When an upgrade changes one of these, the code that they explain needs a
look.

None of it is about askd: each test has a bare server with one handler.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from tests.conditions import eventually

from askd.v1.ask_pb2 import AskEvent
from askd.v1.ask_service_pb2 import WatchAsksResponse

Context = Any
METHOD = "/x.X/Y"
NO_SHARING = [("grpc.so_reuseport", 0)]
LIMIT = 10.0


class _Bare:
    """A server with one handler that takes and returns bytes, and a channel to it."""

    def __init__(self, server: grpc.aio.Server, channel: grpc.aio.Channel) -> None:
        self.server = server
        self.channel = channel

    def call(self, **options: Any) -> Any:
        method: Any = self.channel.unary_unary(METHOD)
        return method(b"x", **options)

    def stream(self, **options: Any) -> Any:
        method: Any = self.channel.unary_stream(METHOD)
        return method(b"x", **options)


@asynccontextmanager
async def bare(*, unary: Any = None, stream: Any = None, health: Any = None) -> AsyncIterator[_Bare]:
    server = grpc.aio.server(options=NO_SHARING)
    if unary or stream:
        make: Any = grpc.unary_unary_rpc_method_handler if unary else grpc.unary_stream_rpc_method_handler
        handler = make(unary or stream)
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("x.X", {"Y": handler})])
    if health:
        health_pb2_grpc.add_HealthServicer_to_server(health, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            yield _Bare(server, channel)
    finally:
        await server.stop(0)


async def code_of(call: Any) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code()


async def echo(request: bytes, _: Context) -> bytes:
    return request


# --- ports ---


async def test_a_port_is_shared_silently_unless_that_is_switched_off() -> None:
    first, second, third = grpc.aio.server(), grpc.aio.server(), grpc.aio.server(options=NO_SHARING)
    port = first.add_insecure_port("127.0.0.1:0")
    assert second.add_insecure_port(f"127.0.0.1:{port}") == port
    with pytest.raises(RuntimeError):
        third.add_insecure_port(f"127.0.0.1:{port}")
    for server in (first, second, third):
        await server.stop(None)


async def test_without_sharing_nobody_else_can_bind() -> None:
    first, second = grpc.aio.server(options=NO_SHARING), grpc.aio.server()
    port = first.add_insecure_port("127.0.0.1:0")
    with pytest.raises(RuntimeError):
        second.add_insecure_port(f"127.0.0.1:{port}")
    for server in (first, second):
        await server.stop(None)


# --- errors ---


async def test_abort_raises_an_ordinary_exception_and_the_first_one_counts() -> None:
    swallowed: list[BaseException] = []

    async def twice(_: bytes, context: Context) -> bytes:
        for code in (grpc.StatusCode.NOT_FOUND, grpc.StatusCode.ABORTED):
            try:
                await context.abort(code, "no")
            except Exception as error:
                swallowed.append(error)
        return b"never sent"

    async with bare(unary=twice) as running:
        assert await code_of(running.call()) is grpc.StatusCode.NOT_FOUND
        await eventually(lambda: len(swallowed) == 2)  # the client may be told before the handler goes on
    assert isinstance(swallowed[0], grpc.aio.AbortError)
    assert [type(error).__name__ for error in swallowed[1:]] == ["UsageError"]


async def test_an_uncaught_exception_reaches_the_client_with_its_text() -> None:
    async def leak(_: bytes, __: Context) -> bytes:
        raise ValueError("the password")

    async with bare(unary=leak) as running:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await running.call()
        assert raised.value.code() is grpc.StatusCode.UNKNOWN
        assert "the password" in (raised.value.details() or "")


@pytest.mark.parametrize(("size", "survives"), [(4096, True), (20_000, False)])
async def test_details_of_a_few_kib_survive_and_large_ones_break_the_reply(size: int, survives: bool) -> None:
    async def refuse(_: bytes, context: Context) -> None:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no", (("x-bin", b"x" * size),))

    async with bare(unary=refuse) as running:
        assert (await code_of(running.call()) is grpc.StatusCode.NOT_FOUND) is survives


# --- cancellation ---


@pytest.mark.parametrize("how", ["cancel", "deadline"])
async def test_a_clients_cancel_and_its_deadline_both_cancel_the_handler(how: str) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    seen: list[bool] = []

    async def sleep(request: bytes, context: Context) -> bytes:
        begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(context.cancelled())
            raise
        finally:
            ended.set()
        return request

    async with bare(unary=sleep) as running:
        call = running.call(timeout=0.3 if how == "deadline" else None)
        await asyncio.wait_for(begun.wait(), LIMIT)
        if how == "cancel":
            call.cancel()
        await asyncio.wait_for(ended.wait(), LIMIT)
        assert seen == [False], "context.cancelled() lies inside the handler"
        await asyncio.wait([asyncio.ensure_future(call.code())])


async def test_a_generator_that_is_between_yields_is_closed_when_its_client_is_gone() -> None:
    begun, closed = asyncio.Event(), asyncio.Event()

    async def count(_: bytes, __: Context) -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x" * 65_536
                begun.set()
        finally:
            closed.set()

    async with bare(stream=count) as running:
        call = running.stream()
        await call.read()
        await asyncio.wait_for(begun.wait(), LIMIT)
        call.cancel()
        await asyncio.wait_for(closed.wait(), LIMIT)


async def test_a_client_that_does_not_read_blocks_the_server_only_after_some_mib() -> None:
    sent = 0

    async def flood(_: bytes, __: Context) -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            yield b"x" * 65_536
            sent += 65_536

    async with bare(stream=flood) as running:
        call = running.stream()
        await call.read()
        still = -1

        async def blocked() -> bool:
            nonlocal still
            before, still = still, sent
            await asyncio.sleep(0.1)
            return before == sent

        await eventually(blocked)
        assert 65_536 < sent < 32 * 1024 * 1024
        call.cancel()


async def test_what_remains_of_a_deadline_is_rounded_up_by_a_hundredth() -> None:
    seen: list[float | None] = []

    async def look(request: bytes, context: Context) -> bytes:
        seen.append(context.time_remaining())
        return request

    deadlines = [0.9, 9.001, 30.01, 100.1, 1000.1, 10_000.1]
    async with bare(unary=look) as running:
        await running.call()
        for deadline in deadlines:
            await running.call(timeout=deadline)
    assert seen[0] is None, "without a deadline"
    rounded = [(remaining or 0) / deadline for remaining, deadline in zip(seen[1:], deadlines, strict=True)]
    assert 1.005 < max(rounded) <= 1.011


# --- stopping and health ---


@pytest.mark.parametrize("kind", ["stream", "health"])
async def test_stop_waits_for_streams_of_every_kind_until_its_grace_is_over(kind: str) -> None:
    async def endless(_: bytes, __: Context) -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(60)

    async with bare(stream=endless, health=health_aio.HealthServicer()) as running:
        call: Any = running.stream()
        if kind == "health":
            call = health_pb2_grpc.HealthStub(running.channel).Watch(health_pb2.HealthCheckRequest())
        await call.read()
        clock = asyncio.get_running_loop().time
        begin = clock()
        await running.server.stop(0.3)
        assert clock() - begin >= 0.25
        assert await code_of(_read_to_end(call)) is grpc.StatusCode.UNAVAILABLE


async def _read_to_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


async def test_a_smaller_grace_wins_over_one_under_way() -> None:
    async def endless(_: bytes, __: Context) -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(60)

    async with bare(stream=endless) as running:
        call = running.stream()
        await call.read()
        stopping = asyncio.create_task(running.server.stop(60))
        await asyncio.wait_for(running.server.stop(0.1), LIMIT)
        await asyncio.wait_for(stopping, LIMIT)


async def test_the_stock_health_service_begins_as_serving_and_is_deaf_after_its_shutdown() -> None:
    servicer = health_aio.HealthServicer()

    async def status() -> int:
        return int((await servicer.Check(health_pb2.HealthCheckRequest(), None)).status)

    assert await status() == health_pb2.HealthCheckResponse.SERVING
    await servicer.enter_graceful_shutdown()
    assert await status() == health_pb2.HealthCheckResponse.NOT_SERVING
    await servicer.set("", health_pb2.HealthCheckResponse.SERVING)
    assert await status() == health_pb2.HealthCheckResponse.NOT_SERVING


# --- messages ---


async def test_serialized_messages_in_a_row_are_their_merge() -> None:
    events = [AskEvent(revision=revision) for revision in (1, 2)]
    parts = [WatchAsksResponse(events=events[:1]), WatchAsksResponse(events=events[1:], revision=2)]
    merged = WatchAsksResponse.FromString(b"".join(part.SerializeToString() for part in parts))
    assert merged == WatchAsksResponse(events=events, revision=2)
