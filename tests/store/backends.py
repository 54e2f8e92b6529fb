"""The databases that the suite runs on. A test asks a backend what it can do, never which one it is."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

import pytest
from sqlalchemy import Connection, Engine, NullPool, QueuePool, create_engine, make_url
from tests.postgres import recycling
from tests.postgres.cluster import shared

from askd.store.database import Database, Transaction
from askd.store.postgres import PostgresDatabase
from askd.store.sqlite import SqliteDatabase

T = TypeVar("T")


class Backend(ABC):
    """One kind of database, and how a test gets at what the store does not show."""

    name: ClassVar[str]
    #: Whether one server at a time may open a database.
    exclusive: ClassVar[bool]
    #: Whether opening a database brings its schema up to date.
    upgrades_on_open: ClassVar[bool]
    #: Whether transactions run beside the event loop, so that a test may hold one up from within.
    threaded: ClassVar[bool]
    #: Whether its plans are the same whatever is stored, so that a test can read them.
    tells_plans: ClassVar[bool]

    @abstractmethod
    def create(self, folder: Path) -> str:
        """The URL of a new database that has no tables. The folder is this database's own."""

    @abstractmethod
    def copy(self, url: str, folder: Path) -> str:
        """The URL of a new database with the contents of one that nobody has open."""

    def give_back(self, url: str) -> None:  # noqa: B027  # most have nothing to do
        """Take a copy back that nobody needs any more."""

    @abstractmethod
    def run(self, url: str, transaction: Transaction[T]) -> T:
        """Run and commit a function on a connection that is none of the store's."""

    @abstractmethod
    def engines(self, database: Database) -> Sequence[Engine]:
        """The engines that an open database has, for listening in on its statements."""

    def plan(self, connection: Connection, statement: str, parameters: object) -> "Step":
        """How the database would run a statement, where it tells plans."""
        raise NotImplementedError

    def under_way(self, database: Database) -> int:
        """How many transactions of an open database are not over."""
        pools = [engine.pool for engine in self.engines(database)]
        return sum(pool.checkedout() for pool in pools if isinstance(pool, QueuePool))


class Step:
    """A step of a plan: what it says, and the steps within it."""

    def __init__(self, text: str, steps: "Sequence[Step]" = ()) -> None:
        self.text = text
        self.steps = list(steps)

    def walk(self) -> "list[Step]":
        """This step and all within it."""
        return [self, *(inner for step in self.steps for inner in step.walk())]


class Sqlite(Backend):
    """The embedded database."""

    name = "sqlite"
    exclusive = True
    upgrades_on_open = True
    threaded = True
    tells_plans = True

    def create(self, folder: Path) -> str:
        """See Backend."""
        return f"sqlite+aiosqlite:///{folder / 'askd.db'}"

    def copy(self, url: str, folder: Path) -> str:
        """See Backend."""
        copied = self.create(folder)
        shutil.copyfile(self._path(url), self._path(copied))
        return copied

    def run(self, url: str, transaction: Transaction[T]) -> T:
        """See Backend."""
        engine = create_engine(f"sqlite:///{self._path(url)}", poolclass=NullPool)
        with engine.begin() as connection:
            return transaction(connection)

    def engines(self, database: Database) -> Sequence[Engine]:
        """See Backend."""
        assert isinstance(database, SqliteDatabase)
        return [threads._engine for threads in (database._writer, database._readers)]

    def under_way(self, database: Database) -> int:
        """See Backend."""
        assert isinstance(database, SqliteDatabase)
        return sum(threads.open_transactions for threads in (database._writer, database._readers))

    def plan(self, connection: Connection, statement: str, parameters: object) -> Step:
        """See Backend."""
        root = Step(statement)
        steps = {0: root}
        rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)  # type: ignore[arg-type]
        for number, parent, _, text in rows:
            steps[number] = Step(text)
            steps[parent].steps.append(steps[number])
        return root

    @staticmethod
    def _path(url: str) -> Path:
        return Path(make_url(url).database or "")


class Postgres(Backend):
    """PostgreSQL, of which the run has one server."""

    name = "postgres"
    exclusive = False
    upgrades_on_open = False
    threaded = False
    tells_plans = False

    def create(self, folder: Path) -> str:
        """See Backend."""
        return shared().create()

    def copy(self, url: str, folder: Path) -> str:
        """See Backend. The one to copy has the schema alone, as has one that another test gave back."""
        return recycling.take()

    def give_back(self, url: str) -> None:
        """See Backend."""
        recycling.give_back(url)

    def run(self, url: str, transaction: Transaction[T]) -> T:
        """See Backend."""
        return shared().run(url, transaction)

    def engines(self, database: Database) -> Sequence[Engine]:
        """See Backend."""
        assert isinstance(database, PostgresDatabase)
        return [pool.engine.sync_engine for pool in (database._writes, database._reads)]


#: Another database is one more of these, made with its URL.
BACKENDS: list[Backend] = [Sqlite(), Postgres()]
#: For what no database has a part in.
ONE_DATABASE = pytest.mark.parametrize("backend", BACKENDS[:1], indirect=True, ids=lambda backend: backend.name)
#: For calls that are refused before anything is asked of the database: one shows what every other would.
BEFORE_THE_DATABASE = pytest.mark.parametrize("server", BACKENDS[:1], indirect=True, ids=lambda backend: backend.name)
