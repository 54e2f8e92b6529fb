"""Calls a second of askd against a bare echo of the 1 KB ask, each with 64 calls in flight."""

from functools import partial

from bench import floors, requests
from bench.client import Connection, calls_per_second, connect_both, take_turns
from bench.plan import Task
from bench.series import Series

CONCURRENT = 64
AGAINST = f"bare echo, {CONCURRENT} concurrent"


async def ask(task: Task) -> list[Series]:
    """Durable asks. Each caller asks in a turn of its own, so that no turn's budget of 8 MiB is reached."""
    bodies = asks(task)
    async with connect_both(task) as (base, ours):
        return [await against_echo(task, "ask64", base, ours, requests.ASK, bodies)]


async def read(task: Task) -> list[Series]:
    """Gets, each caller its own ask, and pages of one: of the workspace, and of the caller's session."""
    async with connect_both(task) as (base, ours):
        call = ours.unary(requests.ASK)
        ids = [requests.asked_id(await call(body)) for body in asks(task)]
        gets = [requests.get(ask_id) for ask_id in ids]
        pages = [requests.page(1)] * CONCURRENT
        own_pages = [requests.page(1, session=f"session-{caller}") for caller in range(CONCURRENT)]
        return [
            await against_echo(task, "get64", base, ours, requests.GET, gets),
            await against_echo(task, "page64", base, ours, requests.LIST, pages),
            await against_echo(task, "page64_session", base, ours, requests.LIST, own_pages),
        ]


def asks(task: Task) -> list[bytes]:
    return [requests.ask(task.plan.question, caller) for caller in range(CONCURRENT)]


async def against_echo(
    task: Task, name: str, base: Connection, ours: Connection, path: str, bodies: list[bytes]
) -> Series:
    seconds = task.plan.seconds
    echo = partial(calls_per_second, base.unary(floors.ECHO), asks(task), seconds)
    work = partial(calls_per_second, ours.unary(path), bodies, seconds)
    floor, askd = await take_turns(task.plan.pairs, echo, work)
    return Series(name=name, unit="calls/s", against=AGAINST, base=floor, askd=askd)
