"""A new watcher of a workspace where much is pending: how soon it hears, and what others notice of it."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from statistics import median

from askd.cli.timing import Timing, repeat
from bench import requests
from bench.client import Connection, connect, connect_both, take_turns
from bench.companion import Background, Commands, Companion, companion
from bench.plan import Task
from bench.series import Series
from bench.stored import PAGE, STRIDE, ask_id

JOINS = 5  # in one slice
CALLS = ("join_ask", "join_get", "join_page")
AGAINST = "the same while nobody joins"


async def joined(task: Task) -> list[Series]:
    """The time to a watcher's first response; then calls one at a time, without and with a watcher in another process
    that takes the whole snapshot again and again."""
    few, size = task.base.stored // 2, task.askd.stored // 2
    async with connect_both(task) as (base, ours), companion(task, "joining.joining") as watcher:
        firsts = await take_turns(task.plan.rounds, partial(first_response, base), partial(first_response, ours))
        against = f"{few:,} pending instead of {size:,}"
        first = Series(name="join_first", unit="ms", against=against, base=firsts[0], askd=firsts[1], size=size)
        return [first, *await disturbed(task, ours, watcher, size)]


async def first_response(connection: Connection) -> float:
    """The median milliseconds from opening a watch to its first response, of watches that leave then."""
    took = []
    for _ in range(JOINS):
        begin = time.perf_counter()
        stream = connection.stream(requests.WATCH, requests.watch())
        await stream.read()
        took.append(time.perf_counter() - begin)
        stream.cancel()
    return median(took) * 1e3


async def disturbed(task: Task, ours: Connection, watcher: Companion, size: int) -> list[Series]:
    """Each kind of call by its median, and all of them by their 99th percentile."""
    alone: list[Timing] = []
    beside: list[Timing] = []
    snapshots: list[float] = []
    for _ in range(task.plan.pairs):
        alone.append(await mixed(task, ours))
        await watcher.do("start")
        beside.append(await mixed(task, ours))
        snapshots += (await watcher.do("stop"))["results"]
    note = f"the watcher has its whole snapshot after {median(snapshots):.1f} s meanwhile"

    def compare(name: str, figure: Callable[[Timing], float], note: str = "") -> Series:
        quiet, busy = ([figure(timing) * 1e3 for timing in timings] for timings in (alone, beside))
        return Series(name=name, unit="ms", against=AGAINST, base=quiet, askd=busy, size=size, note=note)

    kinds = [compare(name, partial(median_of, kind)) for kind, name in enumerate(CALLS)]
    return [*kinds, compare("join_worst", lambda timing: timing.p99, note)]


def median_of(kind: int, timing: Timing) -> float:
    """Of one kind of call. The calls were made in turns, one at a time."""
    return median(timing.latencies[kind :: len(CALLS)])


async def mixed(task: Task, ours: Connection) -> Timing:
    """Asks, gets and pages in turns, one at a time, for a slice."""
    ask, get, page = (ours.unary(path) for path in (requests.ASK, requests.GET, requests.LIST))
    body, first_page = requests.ask_in(task.plan.question, "session"), requests.page(PAGE, pending=True)

    def call(number: int) -> Awaitable[bytes]:
        match number % len(CALLS):
            case 0:
                return ask(body)
            case 1:
                return get(requests.get(ask_id(number * STRIDE % task.askd.stored)))
            case _:
                return page(first_page)

    return await repeat(call, concurrent=1, seconds=task.plan.seconds)


@asynccontextmanager
async def joining(task: Task) -> AsyncIterator[Commands]:
    """The companion that joins; it tells how long each whole snapshot took."""
    async with connect(task.askd.address, task.askd.credential) as askd:

        async def join(_: int) -> float:
            begin = time.perf_counter()
            stream = askd.stream(requests.WATCH, requests.watch())
            while not requests.is_synced(await stream.read()):
                pass
            stream.cancel()
            return time.perf_counter() - begin

        yield Background(join, 1).commands()
