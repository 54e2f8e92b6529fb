"""Every measure by name: which servers it needs and what its figures should be."""

import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import processes, seed, sweeping
from bench.plan import FEW_STORED, Endpoint, Plan, Task
from bench.series import Series, join

CLIENT_LIMIT = 1800.0  # seconds; a client that takes longer hangs


def measured(
    name: str, plan: Plan, place: Path, base: Endpoint, askd: Endpoint, floor: Endpoint | None = None
) -> list[Series]:
    """What the client process finds."""
    task = Task(measure=name, plan=plan, base=base, askd=askd, folder=str(place), floor=floor)
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
    starts = restarts(plan, few, many)
    with processes.askd(few, stored=FEW_STORED) as base, processes.askd(many, stored=plan.stored) as askd:
        return starts + measured("scale", plan, place, base, askd)


def restarts(plan: Plan, few: Path, many: Path) -> list[Series]:
    """Start to ready on either store, in turns."""
    series: list[Series] = []
    for _ in range(plan.starts):
        with processes.askd(few) as base, processes.askd(many) as askd:
            series.append(
                Series(
                    name="scale_start", unit="s", against=f"{FEW_STORED:,} instead of {plan.stored:,} stored",
                    base=[base.seconds], askd=[askd.seconds], size=plan.stored,
                )
            )  # fmt: skip
    return [join(series)]


def joined(plan: Plan, place: Path) -> list[Series]:
    """A watcher that joins where much is pending, against one that joins where little is; both servers are askd."""
    few, many = place / "few", place / "many"
    stored = 2 * plan.pending  # half of a store is pending
    fill(plan, few, FEW_STORED)
    fill(plan, many, stored)
    with processes.askd(few, stored=FEW_STORED) as base, processes.askd(many, stored=stored) as askd:
        return measured("join", plan, place, base, askd)


def idle(plan: Plan, place: Path) -> list[Series]:
    """An askd with many idle waits and watches against one without; and against bare streams."""
    with (
        processes.floor(place) as floor,
        processes.askd(place / "quiet") as base,
        processes.askd(place / "busy") as askd,
    ):
        return measured("idle", plan, place, base, askd, floor)


def gateway(plan: Plan, place: Path) -> list[Series]:
    """The gateway against a bare hop from HTTP to gRPC."""
    with processes.hop(place) as base, processes.askd(place, http="127.0.0.1:0") as askd:
        return measured("gateway", plan, place, base, askd)


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
    "answering": partial(against_floor, "answering"),
    "gateway": gateway,
    "idle": idle,
    "join": joined,
    "shared": shared,
    "end_session": end_session,
    "expire": expire,
}
# Those of which `--check` makes a habit: the rest takes minutes, and is checked by name.
CHECKED = ["ask64", "cycle1", "read64", "cycle16", "fanout", "start"]
