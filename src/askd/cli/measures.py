"""What `askd bench` measures: calls of the typed client on any running server, and nothing left behind."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from askd.cli.timing import Timing, repeat
from askd.client import AsyncClient, RequestError, WatchItem
from askd.domain.errors import Code
from askd.v1 import ask_pb2 as pb

FLOOR = "whoami"
"""The call that the others are compared with: it touches no ask, so it costs what a call costs at all."""
CYCLE = "cycle"
ROUNDS = 3  # the calls take turns, so that a machine that drifts favours none
PROMPT = "Two services still read the column that the migration drops. Run it now, or after the release? " * 10  # 1 KB
EXPIRES_IN = 1800.0  # seconds; what a bench that was killed leaves pending ends by itself then

Call = Callable[[int], Awaitable[object]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where it was measured: a session that was made for it, and has ended since."""

    workspace: str
    session: str


@dataclass(kw_only=True, slots=True)
class Measured:
    """Timings by call and concurrency. `refused` is why the cycle was not measured, where the caller may not answer;
    `left_pending` counts the asks that the end of the session should have cancelled and did not."""

    place: Place
    timings: dict[tuple[str, int], Timing] = field(default_factory=dict)
    refused: str = ""
    left_pending: int = 0

    def rows(self) -> list[dict[str, Any]]:
        """Each measurement for programs; `ratio` is its rate to the floor's at the same concurrency."""
        return [
            {
                "call": call,
                "concurrent": at_once,
                "calls": len(timing.latencies),
                "per_second": timing.rate,
                "median_ms": timing.median * 1e3,
                "p99_ms": timing.p99 * 1e3,
                "ratio": timing.rate / self.timings[FLOOR, at_once].rate,
            }
            for (call, at_once), timing in self.timings.items()
        ]


async def measure(
    client: AsyncClient, session: str, *, seconds: float, limit: int, concurrent: int, begun: Callable[[Place], None]
) -> Measured:
    """Measure every call one at a time and `concurrent` at once, each `seconds` or `limit` calls long.

    `begun` is told the place as soon as it is known. Whatever happens, the session is ended, which cancels what is
    pending in it. Raises RequestError.
    """
    try:
        asked = await _ask(client, session)
        measured = Measured(place=Place(workspace=asked.workspace_id, session=session))
        begun(measured.place)
        async with _calls(client, session, asked.id) as calls:
            for _ in range(ROUNDS):
                for at_once in sorted({1, concurrent}):
                    await _take_turns(measured, calls, at_once, seconds / ROUNDS, max(1, limit // ROUNDS))
    finally:
        await client.end_session(session)
    measured.left_pending = len((await client.list_page(session=session, statuses=["pending"])).asks)
    return measured


async def _take_turns(measured: Measured, calls: Mapping[str, Call], at_once: int, seconds: float, limit: int) -> None:
    for name, call in calls.items():
        if name == CYCLE and measured.refused:
            continue
        try:
            timing = await repeat(call, concurrent=at_once, seconds=seconds, limit=limit)
        except RequestError as error:
            if name != CYCLE or error.code != Code.PERMISSION_DENIED:
                raise
            measured.refused = error.message
            continue
        before = measured.timings.get((name, at_once))
        measured.timings[name, at_once] = before + timing if before else timing


async def _ask(client: AsyncClient, session: str, turn: str = "") -> pb.AskState:
    return await client.ask(PROMPT, session=session, turn=turn, expires_in=EXPIRES_IN)


@asynccontextmanager
async def _calls(client: AsyncClient, session: str, ask_id: str) -> AsyncIterator[Mapping[str, Call]]:
    """The calls by name. A cycle is an ask, its watcher told of it, its answer, and the watcher told of that."""
    told = _Told()

    async def cycle(_: int) -> None:
        asked = await _ask(client, session, CYCLE)
        await told.event(asked.id, pb.ASK_EVENT_TYPE_ASKED)
        await client.answer(asked.id, "After the release.")
        await told.event(asked.id, pb.ASK_EVENT_TYPE_ANSWERED)

    async with told.reading(client.watch(session=session, turn=CYCLE)):
        yield {
            FLOOR: lambda _: client.who_am_i(),
            "ask": lambda _: _ask(client, session),
            "get": lambda _: client.get(ask_id),
            "page": lambda _: client.list_page(session=session, limit=1),
            CYCLE: cycle,
        }


class _Told:
    """Reads a watch for many cycles. An event may come before the response that names its ask."""

    def __init__(self) -> None:
        self._events: defaultdict[tuple[str, int], asyncio.Event] = defaultdict(asyncio.Event)

    async def event(self, ask_id: str, kind: int) -> None:
        """Return when the watch has told it."""
        await self._events[ask_id, kind].wait()
        del self._events[ask_id, kind]

    @asynccontextmanager
    async def reading(self, items: AsyncGenerator[WatchItem]) -> AsyncIterator[None]:
        """Read meanwhile. Where reading fails, what runs meanwhile is cancelled, and the failure is raised."""
        try:
            async with asyncio.TaskGroup() as group:
                reader = group.create_task(self._read(items))
                yield
                reader.cancel()
        except ExceptionGroup as failures:
            raise failures.exceptions[0] from None

    async def _read(self, items: AsyncGenerator[WatchItem]) -> None:
        async with aclosing(items):
            async for item in items:
                if item.event is not None:
                    self._events[item.event.ask.id, item.event.type].set()
