"""Every measure by name: which servers it needs and what its figures should be."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import processes, seed, sweeping
from bench.plan import FEW_STORED, Endpoint, Plan, Task
from bench.series import Bound, Series, at_least, at_most, join

CLIENT_LIMIT = 1800.0  # seconds; a client that takes longer hangs

BOUNDS: dict[str, Bound] = {
    "ask64": at_least(0.55, 0.65),
    "get64": at_least(0.60, 0.85),
    "page64": at_least(0.60, 0.85),
    "page64_session": at_least(0.60, 0.85),
    "cycle1": at_most(1.6, 1.3),
    "cycle16": at_least(0.27, 0.40),
    "fanout": at_least(3, 10),
    "fanout_last": at_most(1.1, 1.0),
    "watchers_memory": at_most(50, absolute=True),
    "scale_start": at_most(2, 1, absolute=True),
    "scale_ask": at_most(1.3, 1.2),
    "scale_get": at_most(1.3, 1.2),
    "scale_page": at_most(1.3, 1.2),
    "scale_page_pending": at_most(1.3, 1.2),
    "scale_page_session": at_most(1.3, 1.2),
    "scale_watch_session": at_most(1.3, 1.2),
    "scale_answer": at_most(1.3, 1.2),
    "across": at_most(20, absolute=True),
    "end_session": at_most(2),
    "expire": at_most(2),
}


def measured(name: str, plan: Plan, place: Path, base: Endpoint, askd: Endpoint) -> list[Series]:
    """What the client process finds."""
    task = Task(measure=name, plan=plan, base=base, askd=askd, folder=str(place))
    return [Series(**series) for series in json.loads(processes.run_client(task.dump(), CLIENT_LIMIT))]


def against_floor(name: str, plan: Plan, place: Path) -> list[Series]:
    """A measure of a fresh askd against the bare server."""
    with processes.floor(place) as base, processes.askd(place) as askd:
        return measured(name, plan, place, base, askd)


def start(plan: Plan, place: Path) -> list[Series]:
    """Start to ready on an empty folder, memory when idle, memory of idle watchers: all of fresh processes."""
    rounds = [start_once(plan, place / str(number)) for number in range(plan.starts)]
    return [join(parts) for parts in zip(*rounds, strict=True)]


def start_once(plan: Plan, place: Path) -> list[Series]:
    with processes.floor(place) as base, processes.askd(place) as askd:
        ready = Series(name="start", unit="s", against="bare server", base=[base.seconds], askd=[askd.seconds])
        return [ready, *measured("memory", plan, place, base, askd)]


def scale(plan: Plan, place: Path) -> list[Series]:
    """Calls on a large store against the same calls on a small one; both servers are askd."""
    few, many = place / "few", place / "many"
    fill(plan, few, FEW_STORED)
    fill(plan, many, plan.stored)
    with processes.askd(few, stored=FEW_STORED) as base, processes.askd(many, stored=plan.stored) as askd:
        return measured("scale", plan, place, base, askd)


def fill(plan: Plan, place: Path, stored: int) -> None:
    """Lets askd make its database and two asks, then repeats these in SQL: a million calls would take an hour."""
    with processes.askd(place) as server:
        measured("patterns", plan, place, server, server)
    seed.fill(place / "data" / "askd.db", stored)


def end_session(plan: Plan, place: Path) -> list[Series]:
    """Asks and answers while a session with many pending asks ends, against before."""
    copy(plan, place, plan.ended, session_id=sweeping.ENDING)
    with processes.askd(place, stored=plan.ended) as server:
        return measured("end_session", plan, place, server, server)


def expire(plan: Plan, place: Path) -> list[Series]:
    """Asks and answers while many asks expire, against before."""
    copy(plan, place, plan.due)
    seed.expire(place / "data" / "askd.db", time.time() + sweeping.LEAD)
    with processes.askd(place, stored=plan.due) as server:
        return measured("expire", plan, place, server, server)


def copy(plan: Plan, place: Path, pending: int, **fixed: str) -> None:
    """Fills a store with pending asks."""
    with processes.askd(place) as server:
        measured("patterns", plan, place, server, server)
    seed.fill_pending(place / "data" / "askd.db", pending, **fixed)


def shared(plan: Plan, place: Path) -> list[Series]:
    """PostgreSQL against SQLite, and two servers on it against one."""
    one, two, alone = place / "one", place / "two", place / "sqlite"
    with processes.postgres() as url, processes.askd(one, database=url) as first:
        with processes.askd(alone) as sqlite:
            figures = measured("one_server", plan, place, sqlite, first)
        with processes.askd(two, database=url, key=one) as second:
            return figures + measured("two_servers", plan, place, first, second)


MEASURES: dict[str, Callable[[Plan, Path], list[Series]]] = {
    "ask64": partial(against_floor, "ask64"),
    "cycle1": partial(against_floor, "cycle1"),
    "start": start,
    "scale": scale,
    "read64": partial(against_floor, "read64"),
    "cycle16": partial(against_floor, "cycle16"),
    "fanout": partial(against_floor, "fanout"),
    "shared": shared,
    "end_session": end_session,
    "expire": expire,
}
