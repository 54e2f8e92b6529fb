"""Fixtures: an empty database of every backend, and a store to drive it."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from sqlalchemy import Connection, select
from tests.store.backends import BACKENDS, Backend

from askd.domain.asks import Ask
from askd.domain.errors import AskdError
from askd.domain.sessions import Command
from askd.store.batch import Applied, Outcome, apply
from askd.store.database import Database, Transaction, open_database
from askd.store.queries import load_asks, load_revision
from askd.store.tables import metadata

T = TypeVar("T")

#: When the clock of a test starts, in microseconds.
START = 1_700_000_000_000_000
SECOND = 1_000_000


@pytest.fixture(scope="session", params=BACKENDS, ids=lambda backend: backend.name)
def backend(request: pytest.FixtureRequest) -> Backend:
    """The kind of database."""
    chosen: Backend = request.param
    return chosen


@pytest.fixture(scope="session")
def template(backend: Backend, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A database that has the schema and nothing else; tests work on copies of it."""
    url = backend.create(tmp_path_factory.mktemp("template"))
    asyncio.run(_set_up(url))
    return url


async def _set_up(url: str) -> None:
    database = open_database(url)
    await database.upgrade()
    await database.close()


@pytest.fixture
def url(backend: Backend, template: str, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that the test may open itself."""
    copied = backend.copy(template, tmp_path)
    yield copied
    backend.give_back(copied)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    """An open database without asks."""
    opened = open_database(url)
    yield opened
    await opened.close()


@dataclass(kw_only=True)
class Store:
    """A database that is driven a batch at a time. Its clock goes on by a second with each."""

    database: Database
    now: int = START

    def tick(self) -> int:
        self.now += SECOND
        return self.now

    async def apply(self, *commands: Command, uncertain: bool = False) -> Applied:
        """Commit a batch."""
        transaction = partial(apply, commands=commands, now=self.tick(), uncertain=uncertain)
        return await self.database.write(transaction)

    async def asks(self, *commands: Command) -> list[Ask]:
        """Commit a batch in which every command succeeds."""
        return [ask_of(outcome) for outcome in (await self.apply(*commands)).outcomes]

    async def ask(self, command: Command) -> Ask:
        """Commit one command that succeeds."""
        return (await self.asks(command))[0]

    async def refusal(self, command: Command) -> AskdError:
        """Commit one command that is refused."""
        return error_of((await self.apply(command)).outcomes[0])

    async def get(self, ask_id: str) -> Ask | None:
        return (await self.read(lambda connection: load_asks(connection, [ask_id]))).get(ask_id)

    async def revision(self, workspace_id: str = "w") -> int:
        return await self.read(lambda connection: load_revision(connection, workspace_id))

    async def read(self, transaction: Transaction[T]) -> T:
        return await self.database.read(transaction)

    async def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that is stored."""
        return await self.read(all_rows)


def all_rows(connection: Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table, in an order of its own."""
    return {
        table.name: sorted((tuple(row) for row in connection.execute(select(table))), key=repr)
        for table in metadata.sorted_tables
    }


def ask_of(outcome: Outcome | AskdError) -> Ask:
    """The ask of a command that succeeded."""
    assert isinstance(outcome, Outcome), f"refused: {outcome!r}"
    assert outcome.ask is not None
    return outcome.ask


def error_of(outcome: Outcome | AskdError) -> AskdError:
    """Why a command was refused."""
    assert isinstance(outcome, AskdError), f"not refused: {outcome!r}"
    return outcome


def codes(outcomes: Sequence[Outcome | AskdError]) -> list[str]:
    """What became of commands, in a word each."""
    return [outcome.code if isinstance(outcome, AskdError) else "done" for outcome in outcomes]


@pytest.fixture
def store(database: Database) -> Store:
    """An empty store."""
    return Store(database=database)
