"""Ten thousand waits and watches for which nothing happens: what each costs, and what others notice of them."""

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

from askd.cli.timing import repeat
from bench import floors, requests
from bench.answering import ASKING, ask_many
from bench.client import Connection, Stream, connect_both, take_turns
from bench.companion import Commands, Companion, companion
from bench.cycles import next_event
from bench.plan import Endpoint, Task
from bench.series import Series
from bench.watching import connections, settled

TELL_LIMIT = 60.0  # seconds until all are told


async def idle(task: Task) -> list[Series]:
    """Half of them watch a session each, half wait for an ask each, all in the workspace where others ask; the base is
    another askd where nobody does. They are held for longer than a heartbeat, by a process of their own."""
    assert task.floor is not None
    count = task.plan.idle
    async with connect_both(task) as (quiet, ours), companion(task, "idle.idling") as holder:
        await holder.do("ask")
        bare = await grown(task.floor, holder, "bare") / count
        watches = await grown(task.askd, holder, "watch")
        waits = await grown(task.askd, holder, "wait")
        asks = await take_turns(task.plan.pairs, partial(ask_ms, task, quiet), partial(ask_ms, task, ours))
        held = await holder.do("held")
    assert held == count, f"{held:,} of {count:,} idle waits and watches were held"
    note = f"{held:,} held; a watch takes {watches / count * 2:.1f} KB, a wait {waits / count * 2:.1f} KB"
    each = [(watches + waits) / count]
    against = "an askd without them"
    return [
        Series(
            name="idle_memory_each", unit="KB", against="bare streams", base=[bare], askd=each, size=count, note=note
        ),
        Series(name="idle_ask", unit="ms", against=against, base=asks[0], askd=asks[1], size=count),
    ]


async def grown(endpoint: Endpoint, holder: Companion, command: str) -> float:
    """Kilobytes that a server's resident memory grows by while the holder does something."""
    before = await settled(endpoint.pid)
    await holder.do(command)
    return (await settled(endpoint.pid) - before) * 1e3


async def ask_ms(task: Task, connection: Connection) -> float:
    """The median of asks one at a time."""
    call, body = connection.unary(requests.ASK), requests.ask_in(task.plan.question, "session")
    return (await repeat(lambda _: call(body), concurrent=1, seconds=task.plan.seconds)).median * 1e3


class Holder:
    """Opens streams and waits, holds them, and shows at the end that each is told what it is there for."""

    def __init__(self, task: Task, stack: AsyncExitStack) -> None:
        self._task = task
        self._stack = stack
        self._half = task.plan.idle // 2
        self._pending: list[str] = []
        self._bare: list[Stream] = []
        self._watches: list[Stream] = []
        self._waits: list[Awaitable[bytes]] = []

    def commands(self) -> Commands:
        return {"ask": self.ask, "bare": self.bare, "watch": self.watch, "wait": self.wait, "held": self.held}

    async def ask(self) -> None:
        """What is waited for."""
        (askd,) = await self._connections(self._task.askd, 1)
        self._pending = await ask_many(self._task, askd, self._half)

    async def bare(self) -> None:
        assert self._task.floor is not None
        some = await self._connections(self._task.floor, self._task.plan.idle)
        self._bare = [one.stream(floors.WATCH, b"") for one in some]  # gRPC cancels a call that nobody holds
        await asyncio.gather(*(stream.read() for stream in self._bare))

    async def watch(self) -> None:
        some = await self._connections(self._task.askd, self._half)
        bodies = [requests.watch(session=session_id(number)) for number in range(self._half)]
        self._watches = [one.stream(requests.WATCH, body) for one, body in zip(some, bodies, strict=True)]
        await asyncio.gather(*(stream.read() for stream in self._watches))

    async def wait(self) -> None:
        some = await self._connections(self._task.askd, self._half)
        bodies = map(requests.wait, self._pending)
        self._waits = [one.unary(requests.WAIT)(body) for one, body in zip(some, bodies, strict=True)]
        # A wait says nothing when it begins; what was sent after it has been answered once it has.
        await asyncio.gather(*(one.unary(requests.GET)(requests.get(self._pending[0])) for one in some))

    async def held(self) -> int:
        """How many are told: each watch of an ask in its session, each wait of its ask's end."""
        told = [next_event(stream) for stream in self._watches]
        bodies = [requests.ask_in(self._task.plan.question, session_id(number)) for number in range(self._half)]
        await self._send(requests.ASK, bodies)
        await self._send(requests.REJECT, list(map(requests.reject, self._pending)))
        return len(await asyncio.wait_for(asyncio.gather(*told, *self._waits), TELL_LIMIT))

    async def _send(self, path: str, bodies: Sequence[bytes]) -> None:
        (askd,) = await self._connections(self._task.askd, 1)
        call = askd.unary(path)
        await repeat(lambda n: call(bodies[n]), concurrent=ASKING, seconds=math.inf, limit=len(bodies))

    async def _connections(self, endpoint: Endpoint, count: int) -> list[Connection]:
        return await self._stack.enter_async_context(connections(endpoint, self._task.askd.credential, count))


def session_id(number: int) -> str:
    return f"idle-{number}"


@asynccontextmanager
async def idling(task: Task) -> AsyncIterator[Commands]:
    """The companion that holds them."""
    async with AsyncExitStack() as stack:
        yield Holder(task, stack).commands()
