"""Fills askd's SQLite file with asks in SQL, as askd itself would have stored them."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, create_engine, insert, select, update

from askd.store.tables import asks, payloads, turns, workspaces
from bench.plan import SESSION_SIZE
from bench.requests import WORKSPACE
from bench.stored import ask_id, first_pending, session_id

BATCH = 10_000  # asks in one statement

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Pattern:
    """An ask that askd stored: its row and the rows of its payload."""

    row: Row
    parts: list[Row]
    fixed: Row = field(default_factory=dict)
    """What every copy has in place of the pattern's."""

    def copy_row(self, number: int, created_revision: int) -> Row:
        """The n-th copy. Its times are the pattern's: older ones would be past their retention, and askd would erase
        them while it is measured."""
        row = self.row | {
            "id": ask_id(number),
            "session_id": session_id(number),
            "created_revision": created_revision,
        }
        if row["resolved_revision"] is not None:
            row["resolved_revision"] = created_revision + 1
        return row | self.fixed

    def copy_parts(self, number: int) -> list[Row]:
        return [part | {"ask_id": ask_id(number)} for part in self.parts]


def fill(path: Path, stored: int) -> None:
    """Stores copies of the two asks that are there, one answered and one pending, under the ids of `bench.stored`.

    The older half is answered, each right after it was asked, the newer half pending. Revisions go on without a gap.
    """

    def write(connection: Connection) -> None:
        answered, pending = load_patterns(connection)
        fill_asks(connection, stored, lambda number: answered if number < first_pending(stored) else pending)
        fill_turns(connection, stored)

    change(path, write)


def fill_pending(path: Path, stored: int, **fixed: Any) -> None:
    """Stores copies of the pending ask that are in no turn, whose budget they would exceed, and in whose columns lies
    what is given."""

    def write(connection: Connection) -> None:
        _, pending = load_patterns(connection)
        pattern = replace(pending, fixed={"turn_id": None} | fixed)
        fill_asks(connection, stored, lambda number: pattern)

    change(path, write)


def expire(path: Path, moment: float) -> None:
    """Lets every pending ask expire at a time, in seconds since 1970."""
    statement = update(asks).where(asks.c.resolved_revision.is_(None)).values(expires_at=int(moment * 1e6))
    change(path, lambda connection: connection.execute(statement))


def change(path: Path, write: Callable[[Connection], object]) -> None:
    engine = create_engine(f"sqlite:///{path}")
    try:
        with engine.connect() as connection:
            # An interrupted run throws the file away, so nothing need be on disk before the end.
            connection.exec_driver_sql("PRAGMA synchronous=OFF")
            write(connection)
            connection.commit()
    finally:
        engine.dispose()


def fill_asks(connection: Connection, stored: int, choose: Callable[[int], Pattern]) -> None:
    """Stores a copy of the pattern that is chosen for each number."""
    revision = connection.scalars(select(workspaces.c.revision).where(workspaces.c.id == WORKSPACE)).one()
    for first in range(0, stored, BATCH):
        batch: list[tuple[int, Pattern, int]] = []
        for number in range(first, min(first + BATCH, stored)):
            pattern = choose(number)
            batch.append((number, pattern, revision + 1))
            revision += 2 if pattern.row["resolved_revision"] else 1
        insert_copies(connection, batch)
    connection.execute(update(workspaces).where(workspaces.c.id == WORKSPACE).values(revision=revision))


def load_patterns(connection: Connection) -> tuple[Pattern, Pattern]:
    """The answered ask and the pending one."""
    found = connection.execute(select(asks).order_by(asks.c.resolved_revision.is_(None))).mappings().all()
    answered, pending = (Pattern(row=dict(row), parts=load_parts(connection, row["id"])) for row in found)
    return answered, pending


def load_parts(connection: Connection, pattern_id: str) -> list[Row]:
    found = connection.execute(select(payloads).where(payloads.c.ask_id == pattern_id))
    return [dict(row) for row in found.mappings()]


def insert_copies(connection: Connection, batch: list[tuple[int, Pattern, int]]) -> None:
    connection.execute(insert(asks), [pattern.copy_row(number, revision) for number, pattern, revision in batch])
    parts = [part for number, pattern, _ in batch for part in pattern.copy_parts(number)]
    connection.execute(insert(payloads), parts)


def fill_turns(connection: Connection, stored: int) -> None:
    """Counts what the copies take of their turns' budgets."""
    pattern = connection.execute(select(turns).limit(1)).mappings().one()
    sessions = dict.fromkeys(map(session_id, range(0, stored, SESSION_SIZE)))
    budget = SESSION_SIZE * pattern["question_bytes"] // 2  # the pattern's turn holds both asks
    connection.execute(
        insert(turns), [dict(pattern) | {"session_id": name, "question_bytes": budget} for name in sessions]
    )
