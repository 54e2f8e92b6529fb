"""Many watchers: what they cost when nothing happens, and how fast they are told."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from itertools import repeat
from statistics import median

from bench import floors, requests
from bench.client import Call, Connection, Stream, connect, connect_both, take_turns
from bench.plan import Endpoint, Task
from bench.processes import resident_bytes
from bench.series import Series

STREAMS_A_CONNECTION = 100
SETTLE = 1.0  # seconds that a server gets before its memory is read
BURST = 100  # asks at once
PUSHES = 20  # single messages in one slice of the bare fan-out
LAST_SAMPLES = 5  # events in one slice of the time to the last watcher

Counter = Callable[[bytes], int]


async def memory(task: Task) -> list[Series]:
    """Resident memory of either server when idle, and what idle streams add to it."""
    credential, count = task.askd.credential, task.plan.watchers
    floor = await grown(task.base, credential, floors.WATCH, b"", count)
    askd = await grown(task.askd, credential, requests.WATCH, requests.watch(), count)
    idle = Series(name="idle_memory", unit="MB", against="bare server", base=[floor[0]], askd=[askd[0]])
    added = Series(
        name="watchers_memory", unit="MB", against="bare streams", base=[floor[1]], askd=[askd[1]], size=count
    )
    return [idle, added]


async def grown(endpoint: Endpoint, credential: str, path: str, request: bytes, count: int) -> tuple[float, float]:
    """Megabytes of the idle server, and megabytes that `count` idle streams add."""
    idle = await settled(endpoint.pid)
    async with streams(endpoint, credential, path, request, count):
        return idle, await settled(endpoint.pid) - idle


async def settled(pid: int) -> float:
    await asyncio.sleep(SETTLE)
    return resident_bytes(pid) / 1e6


@asynccontextmanager
async def streams(
    endpoint: Endpoint, credential: str, path: str, request: bytes, count: int
) -> AsyncIterator[list[Stream]]:
    """Open streams whose first message has been read: the bare server's is empty, askd's the end of its snapshot."""
    async with connections(endpoint, credential, count) as some:
        opened = [connection.stream(path, request) for connection in some]
        await asyncio.gather(*(stream.read() for stream in opened))
        yield opened


@asynccontextmanager
async def connections(endpoint: Endpoint, credential: str, count: int) -> AsyncIterator[list[Connection]]:
    """The connection of each of `count` streams; some share one."""
    async with AsyncExitStack() as stack:
        needed = range(0, count, STREAMS_A_CONNECTION)
        opened = [await stack.enter_async_context(connect(endpoint.address, credential)) for _ in needed]
        yield [opened[number // STREAMS_A_CONNECTION] for number in range(count)]


async def fan_out(task: Task) -> list[Series]:
    """Events delivered a second in bursts, and the time until the last watcher has one, against bare pushes."""
    credential, count = task.askd.credential, task.plan.watchers
    body = requests.ask(task.plan.question, 0)
    async with (
        streams(task.base, credential, floors.WATCH, b"", count) as bare,
        streams(task.askd, credential, requests.WATCH, requests.watch(), count) as watches,
        connect_both(task) as (base, ours),
    ):
        push = partial(delivered, base.unary(floors.PUSH), body, bare, one_message)
        ask = partial(delivered, ours.unary(requests.ASK), body, watches, requests.count_events)
        return [await bursts(task, push, ask), await last(task, push, ask)]


async def bursts(task: Task, push: Callable[[int], Awaitable[float]], ask: Callable[[int], Awaitable[float]]) -> Series:
    watchers = task.plan.watchers

    async def pushed() -> float:
        return PUSHES * watchers / await push(PUSHES)

    async def asked() -> float:
        return BURST * watchers / await ask(BURST)

    floor, askd = await take_turns(task.plan.pairs, pushed, asked)
    against = "bare fan-out of single messages"
    note = f"bursts of {BURST} asks to {watchers} watchers"
    return Series(name="fanout", unit="events/s", against=against, base=floor, askd=askd, size=watchers, note=note)


async def last(task: Task, push: Callable[[int], Awaitable[float]], ask: Callable[[int], Awaitable[float]]) -> Series:
    async def slice_of(send: Callable[[int], Awaitable[float]]) -> float:
        return median([await send(1) for _ in range(LAST_SAMPLES)]) * 1e3

    watchers = task.plan.watchers
    floor, askd = await take_turns(task.plan.pairs, partial(slice_of, push), partial(slice_of, ask))
    note = f"from the call to the last of {watchers} watchers; askd's time holds its commit"
    return Series(
        name="fanout_last", unit="ms", against="bare fan-out", base=floor, askd=askd, size=watchers, note=note
    )


async def delivered(call: Call, body: bytes, to: Sequence[Stream], count: Counter, events: int) -> float:
    """Seconds from sending `events` calls at once until every stream has brought as many events."""
    reading = asyncio.gather(*(take(stream, count, events) for stream in to))
    await asyncio.sleep(0)
    begin = time.perf_counter()
    await asyncio.gather(*map(call, repeat(body, events)), reading)
    return time.perf_counter() - begin


async def take(stream: Stream, count: Counter, events: int) -> None:
    while events > 0:
        events -= count(await stream.read())


def one_message(_: bytes) -> int:
    return 1
