"""What calls cost when many asks are stored, against the same calls on a small store. One at a time, in turns."""

import hashlib
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count

from ulid import ULID

from bench import requests
from bench.client import Call, Connection, connect, connect_both, median_seconds, take_turns
from bench.plan import FEW_STORED, SESSION_SIZE, Endpoint, Task
from bench.series import Series

PAGE = 50
STRIDE = 7919  # a prime, so that its multiples visit a store all over
FIRST_MOMENT = 1_700_000_000_000  # milliseconds since 1970 in the id of the first stored ask; the next has one more

Request = Callable[[int], bytes]


def ask_id(number: int) -> str:
    """The id of the n-th stored ask: as a server would have made it, but the same in every run."""
    moment = (FIRST_MOMENT + number).to_bytes(6, "big")
    return f"que_{str(ULID(moment + hashlib.sha256(moment).digest()[:10])).lower()}"


def session_id(number: int) -> str:
    """The session of the n-th stored ask."""
    return f"stored-{number // SESSION_SIZE}"


def first_pending(stored: int) -> int:
    """The number of the first pending ask: the older half of a store is answered, the newer half pending."""
    return stored // 2


def pending_session(number: int, stored: int) -> str:
    """Some session whose asks are all pending, so that either store has equally much to send."""
    first = first_pending(stored)
    return session_id(first + number * STRIDE % (stored - first))


def ask(task: Task, on: Endpoint) -> Request:
    return partial(requests.ask, task.plan.question)


def get(task: Task, on: Endpoint) -> Request:
    return lambda n: requests.get(ask_id(n * STRIDE % on.stored))


def answer(task: Task, on: Endpoint) -> Request:
    """Answers of stored asks, evenly from all that are pending."""
    first = first_pending(on.stored)
    step = (on.stored - first) // ((task.plan.rounds + 1) * task.plan.calls)
    return lambda n: requests.answer(task.plan.question, ask_id(first + n * step))


def page(task: Task, on: Endpoint) -> Request:
    return lambda n: requests.page(PAGE)


def page_of_pending(task: Task, on: Endpoint) -> Request:
    """The first page of what is pending, which lies behind all that is answered."""
    return lambda n: requests.page(PAGE, pending=True)


def page_of_session(task: Task, on: Endpoint) -> Request:
    return lambda n: requests.page(PAGE, session=pending_session(n, on.stored))


def watch_of_session(task: Task, on: Endpoint) -> Request:
    return lambda n: requests.watch(pending_session(n, on.stored))


def snapshot(connection: Connection) -> Call:
    """A call that opens a watch, reads the snapshot to its end, and leaves."""

    async def read(request: bytes) -> bytes:
        stream = connection.stream(requests.WATCH, request)
        while not requests.is_synced(message := await stream.read()):
            pass
        stream.cancel()
        return message

    return read


# Answers come last, since they change what is pending.
CALLS: dict[str, tuple[str, Callable[[Task, Endpoint], Request]]] = {
    "scale_ask": (requests.ASK, ask),
    "scale_get": (requests.GET, get),
    "scale_page": (requests.LIST, page),
    "scale_page_pending": (requests.LIST, page_of_pending),
    "scale_page_session": (requests.LIST, page_of_session),
    "scale_watch_session": (requests.WATCH, watch_of_session),
    "scale_answer": (requests.ANSWER, answer),
}


async def patterns(task: Task) -> list[Series]:
    """Asks twice in one turn and answers the first: what a store is filled with."""
    async with connect(task.askd.address, task.askd.credential) as askd:
        call = askd.unary(requests.ASK)
        answered, _ = [await call(requests.ask(task.plan.question, 0)) for _ in range(2)]
        await askd.unary(requests.ANSWER)(requests.answer(task.plan.question, requests.asked_id(answered)))
    return []


async def latencies(task: Task) -> list[Series]:
    """The median latency of every call of `CALLS`, and the start of either server on its store."""
    series = [start(task)]
    async with connect_both(task) as (base, ours):
        await check_alike(base, ours)
        for name, (path, make) in CALLS.items():
            few = slices(task, base, path, make(task, task.base))
            many = slices(task, ours, path, make(task, task.askd))
            figures = await take_turns(task.plan.rounds, few, many)
            series.append(against_few(task, name, "ms", *figures))
    return series


async def check_alike(base: Connection, ours: Connection) -> None:
    """A store that lost something, or holds something else, has less to send and would be compared unfairly."""
    for request in (requests.page(PAGE), requests.page(PAGE, pending=True)):
        few, many = [len(await connection.unary(requests.LIST)(request)) for connection in (base, ours)]
        assert 0.9 < many / few < 1.1, f"the pages of the two stores have {few} and {many} bytes"


def start(task: Task) -> Series:
    return against_few(task, "scale_start", "s", [task.base.seconds], [task.askd.seconds])


def against_few(task: Task, name: str, unit: str, few: list[float], many: list[float]) -> Series:
    against = f"{FEW_STORED:,} instead of {task.askd.stored:,} stored"
    return Series(name=name, unit=unit, against=against, base=few, askd=many)


def slices(task: Task, connection: Connection, path: str, request: Request) -> Callable[[], Awaitable[float]]:
    """A slice whose requests go on where the last one's ended."""
    call = snapshot(connection) if path == requests.WATCH else connection.unary(path)
    numbers = count()

    async def run() -> float:
        bodies = [request(next(numbers)) for _ in range(task.plan.calls)]
        return await median_seconds(call, bodies) * 1e3

    return run
