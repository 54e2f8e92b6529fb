"""Several servers on one PostgreSQL database, against one, and PostgreSQL against SQLite."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial
from statistics import median

from bench import requests
from bench.client import Call, Stream, calls_per_second, connect, connect_both, take_turns
from bench.cycles import next_event
from bench.plan import Endpoint, Task
from bench.series import Series

CONCURRENT = 64
WORKSPACES = 16


async def one_server(task: Task) -> list[Series]:
    """Durable asks a second in one hot workspace; the base is a server on SQLite."""
    bodies = [requests.ask(task.plan.question, caller) for caller in range(CONCURRENT)]
    async with connect_both(task) as (base, ours):
        floor, askd = await take_turns(
            task.plan.pairs,
            partial(calls_per_second, base.unary(requests.ASK), bodies, task.plan.seconds),
            partial(calls_per_second, ours.unary(requests.ASK), bodies, task.plan.seconds),
        )
    against = f"the same on SQLite, {CONCURRENT} concurrent"
    return [Series(name="postgres_ask64", unit="calls/s", against=against, base=floor, askd=askd)]


async def two_servers(task: Task) -> list[Series]:
    """Asks a second over some workspaces, sent to both servers, against all to one; and how long a change on one takes
    to a watcher on the other."""
    async with connect_both(task) as (one, other):
        calls = one.unary(requests.ASK), other.unary(requests.ASK)
        alone, both = await take_turns(task.plan.pairs, partial(spread, task, calls[:1]), partial(spread, task, calls))
        near, across = await take_turns(
            task.plan.rounds, partial(told, task, task.base, calls[0]), partial(told, task, task.askd, calls[0])
        )
    note = f"{CONCURRENT} concurrent over {WORKSPACES} workspaces"
    return [
        Series(name="servers2", unit="calls/s", against="one server", base=alone, askd=both, note=note),
        Series(name="across", unit="ms", against="a watcher on the same server", base=near, askd=across),
    ]


async def spread(task: Task, calls: Sequence[Call]) -> float:
    """Calls a second, shared evenly by the servers."""
    bodies = [requests.ask(task.plan.question, caller, f"bench-{caller % WORKSPACES}") for caller in range(CONCURRENT)]
    shares = [bodies[number :: len(calls)] for number in range(len(calls))]
    return sum(
        await asyncio.gather(
            *(calls_per_second(call, share, task.plan.seconds) for call, share in zip(calls, shares, strict=True))
        )
    )


async def told(task: Task, endpoint: Endpoint, ask: Call) -> float:
    """The median milliseconds from an ask to its event at a watcher of a server."""
    async with connect(endpoint.address, task.askd.credential) as connection:
        watcher = connection.stream(requests.WATCH, requests.watch())
        while not requests.is_synced(await watcher.read()):
            pass
        took = [await once(ask, requests.ask(task.plan.question, 0), watcher) for _ in range(task.plan.calls)]
        watcher.cancel()
    return median(took) * 1e3


async def once(ask: Call, request: bytes, watcher: Stream) -> float:
    event = asyncio.create_task(next_event(watcher))
    await asyncio.sleep(0)  # the watcher reads before the call is sent
    begin = time.perf_counter()
    await ask(request)
    arrived, _ = await event
    return arrived - begin
