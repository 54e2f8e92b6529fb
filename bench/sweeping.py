"""What asks and answers of others cost while the server has much to cancel, against before it. One at a time."""

import asyncio
import time
from collections.abc import Callable
from itertools import count
from statistics import median, quantiles

from askd.v1 import ask_service_pb2, session_service_pb2
from bench import requests
from bench.client import Connection, connect_both, seconds_of
from bench.plan import Task
from bench.series import Series
from bench.stored import ask_id

#: The session that ends.
ENDING = "ending"
END_SESSION = "/askd.v1.SessionService/EndSession"
#: Seconds from the start of the server to the moment when its asks are due, which the client has for what is before.
LEAD = 15.0
#: Seconds between looks whether anything is left: rare, since looking costs the others something too.
PAUSE = 0.5
# Asks that a turn takes; its budget is 8 MiB.
TURN_SIZE = 1000


class Others:
    """Callers that ask and answer, one after the other; each cycle is timed."""

    def __init__(self, task: Task, connection: Connection) -> None:
        self._kind = task.plan.question
        self._ask, self._answer = connection.unary(requests.ASK), connection.unary(requests.ANSWER)
        self._numbers = count(TURN_SIZE)

    async def cycle(self) -> float:
        """Milliseconds of an ask and its answer."""
        request = requests.ask(self._kind, next(self._numbers) // TURN_SIZE)
        begin = time.perf_counter()
        response = await self._ask(request)
        asked = time.perf_counter() - begin
        reply = requests.answer(self._kind, requests.asked_id(response))
        return (asked + await seconds_of(self._answer, reply)) * 1e3

    async def while_true(self, holds: Callable[[], bool]) -> list[float]:
        found = []
        while holds():
            found.append(await self.cycle())
        return found

    async def undisturbed(self, task: Task, until: float = float("inf")) -> list[float]:
        """Cycles while nothing else is done, after some that do not count."""
        for _ in range(task.plan.calls):
            await self.cycle()
        left = count(-task.plan.calls * task.plan.rounds)
        found = await self.while_true(lambda: next(left) < 0 and time.time() < until)
        assert len(found) >= task.plan.calls, "the machine is so busy that nothing was measured in time"
        return found


async def end_session(task: Task) -> list[Series]:
    """A session with many pending asks ends. The call returns once all are cancelled."""
    async with connect_both(task) as (theirs, ours):
        others = Others(task, theirs)
        before = await others.undisturbed(task)
        request = session_service_pb2.EndSessionRequest(workspace_id=requests.WORKSPACE, session_id=ENDING)
        begin = time.perf_counter()
        ended = asyncio.ensure_future(ours.unary(END_SESSION)(request.SerializeToString()))
        during = await others.while_true(lambda: not ended.done())
        await ended
        what = f"{task.plan.ended:,} asks of a session in {time.perf_counter() - begin:.1f} s"
        return [_compared("end_session", what, before, during, await others.undisturbed(task))]


async def expire(task: Task) -> list[Series]:
    """Many asks are due at the same moment."""
    async with connect_both(task) as (theirs, ours):
        others = Others(task, theirs)
        response = await ours.unary(requests.GET)(requests.get(ask_id(0)))
        due = ask_service_pb2.GetAskResponse.FromString(response).ask.expires_at.ToMicroseconds() / 1e6
        before = await others.undisturbed(task, until=due)
        await asyncio.sleep(due - time.time())
        begin = time.perf_counter()
        swept = asyncio.create_task(_swept(ours))
        during = await others.while_true(lambda: not swept.done())
        await swept
        what = f"{task.plan.due:,} asks expire in {time.perf_counter() - begin:.1f} s"
        return [_compared("expire", what, before, during, await others.undisturbed(task))]


async def _swept(connection: Connection) -> None:
    """Return once no stored ask is pending."""
    while await _are_left(connection):  # noqa: ASYNC110  # another process sweeps
        await asyncio.sleep(PAUSE)


async def _are_left(connection: Connection) -> bool:
    # The oldest comes first, and those that others ask meanwhile expire never.
    page = await connection.unary(requests.LIST)(requests.page(1, pending=True))
    return any(ask.HasField("expires_at") for ask in ask_service_pb2.ListAsksResponse.FromString(page).asks)


def _compared(name: str, what: str, before: list[float], during: list[float], after: list[float]) -> Series:
    """What is after it shows whether the machine was as quiet all the time."""
    late, early = (quantiles(part, n=100)[-1] for part in (during, before))
    note = f"{what}, {len(during):,} cycles meanwhile; 99 % in {late:.1f} ms, before {early:.1f} ms; "
    return Series(
        name=name, unit="ms", against="ask and answer before", base=[median(before)], askd=[median(during)],
        note=f"{note}after it {median(after):.2f} ms",
    )  # fmt: skip
