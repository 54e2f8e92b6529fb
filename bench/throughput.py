"""Calls a second of askd against a bare echo of the 1 KB ask, each with 64 calls in flight."""

from functools import partial
from pathlib import Path

from bench import floors, h2load, requests
from bench.answering import ASKING, asks
from bench.client import Connection, calls_per_second, connect_both, take_turns
from bench.plan import Task
from bench.series import Series

CONCURRENT = ASKING
PYTHON = "grpc.aio, in Python"
AGAINST = f"bare echo, {CONCURRENT} concurrent"


async def ask(task: Task) -> list[Series]:
    """Durable asks. Each caller asks in a turn of its own, so that no turn's budget of 8 MiB is reached."""
    bodies = asks(task)
    body = requests.ask_in(task.plan.question, "session")
    async with connect_both(task) as (base, ours):
        series = await against_echo(task, "ask64", base, ours, requests.ASK, bodies)
    return [series, *await by_h2load(task, "ask64_h2load", requests.ASK, body)]


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
            *await by_h2load(task, "get64_h2load", requests.GET, gets[0]),
        ]


async def against_echo(
    task: Task, name: str, base: Connection, ours: Connection, path: str, bodies: list[bytes]
) -> Series:
    seconds = task.plan.seconds
    echo = partial(calls_per_second, base.unary(floors.ECHO), asks(task), seconds)
    work = partial(calls_per_second, ours.unary(path), bodies, seconds)
    floor, askd = await take_turns(task.plan.pairs, echo, work)
    return Series(name=name, unit="calls/s", against=AGAINST, base=floor, askd=askd, note=f"client: {PYTHON}")


async def by_h2load(task: Task, name: str, path: str, body: bytes) -> list[Series]:
    """The same by a client in C, where there is one. The echo's request is the ask's."""
    if h2load.PROGRAM is None:
        return []
    measure = partial(
        h2load.calls_per_second,
        credential=task.askd.credential, concurrent=CONCURRENT, seconds=task.plan.seconds, folder=Path(task.folder),
    )  # fmt: skip
    echo = partial(measure, task.base.address, floors.ECHO, asks(task)[0])
    floor, askd = await take_turns(task.plan.pairs, echo, partial(measure, task.askd.address, path, body))
    return [Series(name=name, unit="calls/s", against=AGAINST, base=floor, askd=askd, note="client: h2load, in C")]
