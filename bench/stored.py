"""What calls cost when many asks are stored, against the same calls on a small store. One at a time, in turns."""

from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count

from bench import requests
from bench.answering import ask_many
from bench.client import Call, Connection, connect, connect_both, median_seconds, take_turns
from bench.plan import FEW_STORED, SESSION_SIZE, Endpoint, Task
from bench.series import Series

PAGE = 50
STRIDE = 7919  # a prime, so that its multiples visit a store all over

Request = Callable[[int], bytes]


def ask_id(number: int) -> str:
    """The id of the n-th stored ask: a ULID like any other, of digits alone, the same in every run."""
    return f"que_01{number:024d}"


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


Make = Callable[[Task, Endpoint, Connection], Awaitable[Request]]


async def ask(task: Task, on: Endpoint, connection: Connection) -> Request:
    return partial(requests.ask, task.plan.question)


async def get(task: Task, on: Endpoint, connection: Connection) -> Request:
    return lambda n: requests.get(ask_id(n * STRIDE % on.stored))


async def wait(task: Task, on: Endpoint, connection: Connection) -> Request:
    """Waits for asks that were answered long ago, which are told at once."""
    return lambda n: requests.wait(ask_id(n * STRIDE % first_pending(on.stored)))


async def answer(task: Task, on: Endpoint, connection: Connection) -> Request:
    """Answers of stored asks, evenly from all that are pending."""
    first = first_pending(on.stored)
    step = (on.stored - first) // ((task.plan.rounds + 1) * task.plan.calls)
    return lambda n: requests.answer(task.plan.question, ask_id(first + n * step))


async def reject(task: Task, on: Endpoint, connection: Connection) -> Request:
    """Rejections of new asks: the small store has not enough pending ones for answers and these."""
    ids = await new_asks(task, connection)
    return lambda n: requests.reject(ids[n])


async def cancel(task: Task, on: Endpoint, connection: Connection) -> Request:
    ids = await new_asks(task, connection)
    return lambda n: requests.cancel(ids[n])


async def new_asks(task: Task, connection: Connection) -> list[str]:
    return await ask_many(task, connection, (task.plan.rounds + 1) * task.plan.calls)


async def end_turn(task: Task, on: Endpoint, connection: Connection) -> Request:
    """Ends of turns that asked nothing."""
    return lambda n: requests.end_turn(f"turn-{n}")


async def page(task: Task, on: Endpoint, connection: Connection) -> Request:
    return lambda n: requests.page(PAGE)


async def page_of_pending(task: Task, on: Endpoint, connection: Connection) -> Request:
    """The first page of what is pending, which lies behind all that is answered."""
    return lambda n: requests.page(PAGE, pending=True)


async def page_of_session(task: Task, on: Endpoint, connection: Connection) -> Request:
    return lambda n: requests.page(PAGE, session=pending_session(n, on.stored))


async def watch_of_session(task: Task, on: Endpoint, connection: Connection) -> Request:
    return lambda n: requests.watch(pending_session(n, on.stored))


async def watch_after(task: Task, on: Endpoint, connection: Connection) -> Request:
    """Watches that resume so many events before the last."""
    synced = await snapshot(connection)(requests.watch("none"))
    last = requests.revision_of(synced) - PAGE
    return lambda n: requests.watch(after=last)


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
CALLS: dict[str, tuple[str, Make]] = {
    "scale_ask": (requests.ASK, ask),
    "scale_get": (requests.GET, get),
    "scale_wait": (requests.WAIT, wait),
    "scale_page": (requests.LIST, page),
    "scale_page_pending": (requests.LIST, page_of_pending),
    "scale_page_session": (requests.LIST, page_of_session),
    "scale_watch_session": (requests.WATCH, watch_of_session),
    "scale_watch_after": (requests.WATCH, watch_after),
    "scale_end_turn": (requests.END_TURN, end_turn),
    "scale_reject": (requests.REJECT, reject),
    "scale_cancel": (requests.CANCEL, cancel),
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
    """The median latency of every call of `CALLS`."""
    series: list[Series] = []
    async with connect_both(task) as (base, ours):
        await check_alike(base, ours)
        for name, (path, make) in CALLS.items():
            few = slices(task, base, path, await make(task, task.base, base))
            many = slices(task, ours, path, await make(task, task.askd, ours))
            figures = await take_turns(task.plan.rounds, few, many)
            series.append(against_few(task, name, *figures))
    return series


async def check_alike(base: Connection, ours: Connection) -> None:
    """A store that lost something, or holds something else, has less to send and would be compared unfairly."""
    for request in (requests.page(PAGE), requests.page(PAGE, pending=True)):
        few, many = [len(await connection.unary(requests.LIST)(request)) for connection in (base, ours)]
        assert 0.9 < many / few < 1.1, f"the pages of the two stores have {few} and {many} bytes"


def against_few(task: Task, name: str, few: list[float], many: list[float]) -> Series:
    against = f"{FEW_STORED:,} instead of {task.askd.stored:,} stored"
    return Series(name=name, unit="ms", against=against, base=few, askd=many, size=task.askd.stored)


def slices(task: Task, connection: Connection, path: str, request: Request) -> Callable[[], Awaitable[float]]:
    """A slice whose requests go on where the last one's ended."""
    call = snapshot(connection) if path == requests.WATCH else connection.unary(path)
    numbers = count()

    async def run() -> float:
        bodies = [request(next(numbers)) for _ in range(task.plan.calls)]
        return await median_seconds(call, bodies) * 1e3

    return run
