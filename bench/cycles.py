"""The whole life of an ask: asked, seen by a watcher, answered, seen by the watcher."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from statistics import median

from askd.v1 import ask_pb2, ask_service_pb2
from bench import floors, requests
from bench.client import Call, Stream, calls_per_second, connect_both, seconds_of, take_turns
from bench.commits import Commits
from bench.plan import Task
from bench.series import Series

CONCURRENT = 16


@dataclass(slots=True)
class Parts:
    """What a cycle is made of, done bare: a call, a commit and a stream message for the ask, and again for the answer.

    The parts follow each other one at a time, as they do in a cycle, so that processors and disk are as idle before
    each as they are there. A call is a whole round trip of the real request to the echo server. A commit is one row of
    the request's bytes. A message has the size of the real event; its time runs from the stamp that the bare server
    gives it (the monotonic clock, which all processes of a machine share) to the moment the client has read it, and it
    is sent while the server does nothing else. So the sum has none of the overlap that askd may use.
    """

    echo: Call
    push: Call
    watcher: Stream
    commits: Commits
    calls: list[float] = field(default_factory=list)
    writes: list[float] = field(default_factory=list)
    messages: list[float] = field(default_factory=list)

    async def half(self, request: bytes, event: bytes) -> float:
        self.calls.append(await seconds_of(self.echo, request))
        self.writes.append(self.commits.commit(request))
        self.messages.append(await self._message(event))
        return self.calls[-1] + self.writes[-1] + self.messages[-1]

    async def _message(self, body: bytes) -> float:
        await self.push(body)
        message = await self.watcher.read()
        now = time.monotonic_ns()
        return (now - int.from_bytes(message[: floors.STAMP_BYTES], "big")) / 1e9

    def note(self) -> str:
        call, write, message = (median(part) * 1e3 for part in (self.calls, self.writes, self.messages))
        return f"bare: call {call:.2f} ms, commit {write:.2f} ms, message {message:.2f} ms"


@dataclass(slots=True)
class Cycle:
    """The cycle on askd: one client asks and answers, another, on a connection of its own, watches.

    Each half runs from sending the call to the moment when its response and the watcher's event have both arrived. What
    the client does between the halves (reading the ask's id, making the answer) is not timed.
    """

    kind: str
    ask: Call
    answer: Call
    watcher: Stream
    samples: list[tuple[bytes, bytes]] = field(default_factory=list)
    """The two requests and events of the first cycle, as (request, event)."""

    async def run(self) -> float:
        request = requests.ask(self.kind, 0)
        asking, response, asked = await self.half(self.ask, request)
        reply = requests.answer(self.kind, requests.asked_id(response))
        answering, _, answered = await self.half(self.answer, reply)
        self.samples = self.samples or [(request, asked), (reply, answered)]
        return asking + answering

    async def half(self, call: Call, request: bytes) -> tuple[float, bytes, bytes]:
        told = asyncio.create_task(next_event(self.watcher))
        await asyncio.sleep(0)  # the watcher reads before the call is sent
        begin = time.perf_counter()
        response = await call(request)
        done = time.perf_counter()
        arrived, event = await told
        return max(done, arrived) - begin, response, event


async def next_event(watcher: Stream) -> tuple[float, bytes]:
    """When the next response with an event arrived, and it; heartbeats are passed over."""
    while True:
        message = await watcher.read()
        moment = time.perf_counter()
        if requests.count_events(message):
            return moment, message


@asynccontextmanager
async def watching(task: Task) -> AsyncIterator[tuple[Stream, Stream]]:
    """An open stream of the bare server and a watch of askd, both registered, on connections of their own."""
    async with connect_both(task) as (base, ours):
        floor, askd = base.stream(floors.WATCH, b""), ours.stream(requests.WATCH, requests.watch())
        await floor.read()
        while not requests.is_synced(await askd.read()):
            pass
        yield floor, askd


async def one_at_a_time(task: Task) -> list[Series]:
    """The median cycle against the median sum of its parts."""
    kind, count = task.plan.question, task.plan.calls
    with Commits(Path(task.folder) / "commits.db") as commits:
        async with connect_both(task) as (base, ours), watching(task) as (stream, watch):
            parts = Parts(base.unary(floors.ECHO), base.unary(floors.PUSH_LATER), stream, commits)
            whole = Cycle(kind, ours.unary(requests.ASK), ours.unary(requests.ANSWER), watch)
            await whole.run()

            async def sum_of_parts() -> float:
                return sum([await parts.half(request, event) for request, event in whole.samples])

            floor, askd = await take_turns(
                task.plan.rounds, partial(median_ms, sum_of_parts, count), partial(median_ms, whole.run, count)
            )
    return [Series(name="cycle1", unit="ms", against="sum of its parts", base=floor, askd=askd, note=parts.note())]


async def median_ms(run: Callable[[], Awaitable[float]], count: int) -> float:
    return median([await run() for _ in range(count)]) * 1e3


class Told:
    """Reads the watch for many callers and wakes each when its ask has been answered."""

    def __init__(self, watcher: Stream) -> None:
        self._watcher = watcher
        self._waiting: dict[str, asyncio.Future[None]] = {}

    def expect(self, ask_id: str) -> asyncio.Future[None]:
        """Done when the watcher has the answer; to be called before answering."""
        self._waiting[ask_id] = asyncio.get_running_loop().create_future()
        return self._waiting[ask_id]

    async def read(self) -> None:
        while True:
            response = ask_service_pb2.WatchAsksResponse.FromString(await self._watcher.read())
            for event in response.events:
                if event.type == ask_pb2.ASK_EVENT_TYPE_ANSWERED:
                    self._waiting.pop(event.ask.id).set_result(None)


async def many_at_once(task: Task) -> list[Series]:
    """Cycles a second (asked, answered, watcher told of the answer) against calls a second of the bare echo."""
    kind, seconds = task.plan.question, task.plan.seconds
    bodies = [requests.ask(kind, caller) for caller in range(CONCURRENT)]
    async with connect_both(task) as (base, ours), watching(task) as (_, watch):
        ask, reply, told = ours.unary(requests.ASK), ours.unary(requests.ANSWER), Told(watch)

        async def run(request: bytes) -> bytes:
            ask_id = requests.asked_id(await ask(request))
            answered = told.expect(ask_id)
            receipt = await reply(requests.answer(kind, ask_id))
            await answered
            return receipt

        echo = partial(calls_per_second, base.unary(floors.ECHO), bodies, seconds)
        async with reading(told):
            floor, askd = await take_turns(task.plan.pairs, echo, partial(calls_per_second, run, bodies, seconds))
    against = f"bare echo, {CONCURRENT} concurrent"
    return [Series(name="cycle16", unit="cycles/s", against=against, base=floor, askd=askd)]


@asynccontextmanager
async def reading(told: Told) -> AsyncIterator[None]:
    """Reads meanwhile. Where reading fails, what runs meanwhile is cancelled, and the failure is raised."""
    async with asyncio.TaskGroup() as group:
        reader = group.create_task(told.read())
        yield
        reader.cancel()
