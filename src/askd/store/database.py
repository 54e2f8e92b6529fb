"""What a store runs on: short transactions on a database, given as functions of a connection."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import SQLAlchemyError

from askd.domain.errors import unavailable

T = TypeVar("T")
Transaction = Callable[[Connection], T]


class StartError(Exception):
    """A database that cannot be used; the message is one line for the operator."""


class Database(Protocol):
    """A database. Both methods run `transaction` to its end even where the caller is cancelled, so that a connection is
    never left in the middle of one; they raise what the driver raises."""

    async def read(self, transaction: Transaction[T]) -> T:
        """Run a function that only reads, on one consistent snapshot where the database has such."""
        ...

    async def write(self, transaction: Transaction[T]) -> T:
        """Run a function and commit what it did, or nothing of it where it raises."""
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


def open_database(url: str, *, beside_server: bool = False) -> Database:
    """Open the database of a URL and bring its schema up to date, unless a server holds it and the caller may stand
    beside it. Raises StartError."""
    parsed = make_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise StartError(f"database {parsed.drivername!r} is not supported")
    from askd.store.sqlite import SqliteDatabase

    return SqliteDatabase(parsed, beside_server=beside_server)
