"""How long answers take while others ask at full speed."""

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from askd.cli.timing import Timing, repeat
from bench import requests
from bench.client import Connection, connect
from bench.companion import Background, Commands, companion
from bench.plan import Task
from bench.series import Series

ASKING = 64
ANSWERING = 4
ANSWERS = 600  # of one slice at most
LONGER = 2.0  # a slice lasts so many of the plan's: a hundredth of its answers must be several


async def under_load(task: Task) -> list[Series]:
    """The 99th percentile of answers against their median, slice by slice, while another process asks."""
    medians, slowest, rates = [], [], []
    async with connect(task.askd.address, task.askd.credential) as askd, companion(task, "answering.asking") as others:
        for _ in range(task.plan.pairs):
            pending = await ask_many(task, askd, ANSWERS)
            await others.do("start")
            timing = await answer(task, askd, pending)
            rates.append((await others.do("stop"))["rate"])
            medians.append(timing.median * 1e3)
            slowest.append(timing.p99 * 1e3)
    note = f"{ANSWERING} answer while {ASKING} ask, {min(rates):,.0f} to {max(rates):,.0f} asks/s"
    return [Series(name="answer_p99", unit="ms", against="their median", base=medians, askd=slowest, note=note)]


async def ask_many(task: Task, askd: Connection, number: int) -> list[str]:
    """The ids of new asks."""
    call, bodies = askd.unary(requests.ASK), asks(task)
    ids: list[str] = []

    async def ask(n: int) -> None:
        ids.append(requests.asked_id(await call(bodies[n % ASKING])))

    await repeat(ask, concurrent=ASKING, seconds=math.inf, limit=number)
    return ids


async def answer(task: Task, askd: Connection, pending: Sequence[str]) -> Timing:
    """Answers of these asks, as many as fit into a slice."""
    call = askd.unary(requests.ANSWER)
    bodies = [requests.answer(task.plan.question, ask_id) for ask_id in pending]
    seconds = LONGER * task.plan.seconds
    return await repeat(lambda n: call(bodies[n]), concurrent=ANSWERING, seconds=seconds, limit=len(bodies))


@asynccontextmanager
async def asking(task: Task) -> AsyncIterator[Commands]:
    """The companion that asks."""
    bodies = asks(task)
    async with connect(task.askd.address, task.askd.credential) as askd:
        call = askd.unary(requests.ASK)

        async def ask(caller: int) -> None:
            await call(bodies[caller])

        yield Background(ask, ASKING).commands()


def asks(task: Task) -> list[bytes]:
    """One for each caller, in a turn of its own, so that no turn's budget of 8 MiB is reached."""
    return [requests.ask(task.plan.question, caller) for caller in range(ASKING)]
