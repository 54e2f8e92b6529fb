"""What a store runs on: short transactions on a database, given as functions of a connection."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeVar

from sqlalchemy import URL, Connection, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from askd.domain.asks import AskEvent
from askd.domain.errors import unavailable
from askd.domain.values import value

T = TypeVar("T")
Transaction = Callable[[Connection], T]

#: When the call that a read serves is over, by the event loop's clock: a database that can stops the read by then.
deadline: ContextVar[float] = ContextVar("deadline", default=math.inf)


class StartError(Exception):
    """A database that cannot be used; the message is one line for the operator."""


class LockedError(SQLAlchemyError):
    """Another transaction keeps a row locked for longer than this one waits. Nothing of this one was done."""


@value
class Hint:
    """A word of a server that it committed changes of a workspace: the newest revision, and asks that it resolved."""

    workspace_id: str
    revision: int
    resolved: Sequence[str] = ()


class Hints(Protocol):
    """How the servers on a database tell one another of commits. Hints may be lost, late or repeated."""

    def announce(self, events: Sequence[AskEvent]) -> None:
        """Tell the other servers of committed events, soon."""
        ...

    async def run(self, hear: Callable[[Hint], None], connected: Callable[[], None]) -> None:
        """Tell and hear again and again, until cancelled. `connected` is called when hints begin to come: those before
        were lost."""
        ...


class Database(Protocol):
    """A database. Both methods run `transaction` to its end even where the caller is cancelled, so that a connection is
    never left in the middle of one; they raise what the driver raises, OperationalError where the database is away."""

    #: How many writers share its workspaces.
    writers: int = 1
    #: None where one server at a time has the database.
    hints: Hints | None = None

    async def upgrade(self) -> None:
        """Bring the schema up to date. Raises StartError."""
        ...

    async def check(self) -> None:
        """Raise StartError where the schema is not the program's, or the database is away."""
        ...

    async def read(self, transaction: Transaction[T]) -> T:
        """Run a function that only reads, on one consistent snapshot."""
        ...

    async def write(self, transaction: Transaction[T]) -> T:
        """Run a function and commit what it did, or nothing of it where it raises. Where others do the same at the same
        time, the function may be run again from its beginning. Raises LockedError, too."""
        ...

    async def scrub(self) -> bool:
        """Remove what deleted rows left in the database's own files, as far as it lets us. Returns False where that is
        to be tried again."""
        ...

    async def close(self) -> None:
        """Finish what runs and let the database go."""
        ...


def refusal(error: Exception) -> Exception:
    """What a caller is told of a failed transaction: that the database is away, or a bug as it is."""
    return unavailable("the database is away") if isinstance(error, SQLAlchemyError) else error


@contextmanager
def refusing() -> Iterator[None]:
    """Turn what the database cannot do into unavailable."""
    try:
        yield
    except SQLAlchemyError as error:
        raise refusal(error) from error


def parse_url(url: str) -> URL:
    """The parts of a database's URL. Raises StartError, which does not repeat the URL: it may hold a password."""
    try:
        return make_url(url)
    except (ArgumentError, ValueError):
        raise StartError("the database's URL cannot be understood") from None


def open_database(url: str, *, listen_url: str = "", beside_server: bool = False) -> Database:
    """Open the database of a URL. One of a single server is brought up to date, unless a server holds it and the caller
    may stand beside it; one of several is not looked at before check(). `listen_url` is where hints are heard, the same
    database past a pooler. Raises StartError."""
    parsed = parse_url(url)
    match parsed.get_backend_name():
        case "sqlite":
            from askd.store.sqlite import SqliteDatabase

            return SqliteDatabase(parsed, beside_server=beside_server)
        case "postgresql":
            try:
                from askd.store.postgres import PostgresDatabase
            except ModuleNotFoundError:
                raise StartError("PostgreSQL needs the extra askd[postgres]") from None
            return PostgresDatabase(parsed, parse_url(listen_url or url))
    raise StartError(f"database {parsed.drivername!r} is not supported")
