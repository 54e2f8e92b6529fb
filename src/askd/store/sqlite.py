"""SQLite: one writer thread, a few reader threads, and a lock file that keeps a second server off.

The driver is synchronous and lives in threads of its own: a transaction costs one hop to a thread instead of one a
statement.
"""

import asyncio
import fcntl
import os
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError, OperationalError

from askd.store.database import Hints, StartError, Transaction
from askd.store.migrations import upgrade

T = TypeVar("T")

READERS = 2
#: How long a statement waits for a lock that another process holds, in milliseconds.
BUSY_TIMEOUT = 1000
#: Pages kept in memory by each connection, in KiB.
CACHE = 32 * 1024


class SqliteDatabase:
    """The embedded database. One server at a time holds its file."""

    writers = 1
    hints: Hints | None = None

    def __init__(self, url: URL, *, beside_server: bool) -> None:
        if not url.database or url.database == ":memory:":
            raise StartError("an SQLite database needs a file")
        path = Path(url.database).absolute()
        self._lock = _open_lock(path)
        try:
            held = not _take_lock(self._lock)
            if held and not beside_server:
                raise StartError(f"another server holds {path}")
            if not held:
                _upgrade(path)
        except BaseException as error:
            os.close(self._lock)
            if isinstance(error, DBAPIError | sqlite3.Error):
                raise StartError(f"cannot open {path}: {_reason(error)}") from error
            raise
        self._writer = _Threads(path, 1, "writer", "BEGIN IMMEDIATE")
        self._readers = _Threads(path, READERS, "reader", "BEGIN")

    async def upgrade(self) -> None:
        """See Database. Opening has done so."""

    async def check(self) -> None:
        """See Database. Opening has done so."""

    async def read(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await self._readers.transact(transaction)

    async def write(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await self._writer.transact(transaction)

    async def scrub(self) -> bool:
        """See Database. Pages as they were before a deletion lie in the write-ahead log until it is emptied."""
        return await self._writer.run(_truncate)

    async def close(self) -> None:
        """See Database."""
        await self._readers.close()
        await self._writer.close()
        os.close(self._lock)


class _Threads:
    """Threads that keep a connection each. A transaction is begun and ended by the driver itself: what SQLAlchemy does
    at it costs as much as a small transaction."""

    def __init__(self, path: Path, count: int, name: str, begin: str) -> None:
        self._engine = _engine(path)
        self._begin = begin
        self._threads = ThreadPoolExecutor(count, f"askd-{name}")
        self._own = threading.local()
        self._connections: set[Connection] = set()

    @property
    def open_transactions(self) -> int:
        """How many transactions are under way."""
        return sum(_driver(connection).in_transaction for connection in list(self._connections))

    async def transact(self, transaction: Transaction[T]) -> T:
        """Run a function in a transaction, to its end even where the caller is cancelled."""
        return await self.run(lambda connection: self._transact(connection, transaction))

    async def run(self, work: Transaction[T]) -> T:
        """Run a function on a connection."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def _run(self, work: Transaction[T]) -> T:
        try:
            return work(self._connected())
        except sqlite3.Error as error:  # from what SQLAlchemy has no part in
            raise OperationalError(None, None, error) from error

    def _connected(self) -> Connection:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is None or connection.closed:
            self._own.connection = connection = self._engine.connect()
            self._connections.add(connection)
        return connection

    def _transact(self, connection: Connection, transaction: Transaction[T]) -> T:
        driver = _driver(connection)
        driver.execute(self._begin)
        try:
            result = transaction(connection)
            driver.execute("COMMIT")
        except BaseException:
            self._roll_back(connection, driver)
            raise
        return result

    def _roll_back(self, connection: Connection, driver: sqlite3.Connection) -> None:
        try:
            if driver.in_transaction:  # SQLite ends some by itself
                driver.execute("ROLLBACK")
        except sqlite3.Error:  # whatever it is, the connection cannot be used again
            self._connections.discard(connection)
            connection.invalidate()
            connection.close()

    async def close(self) -> None:
        """Finish what runs and close the connections."""
        await asyncio.get_running_loop().run_in_executor(None, self._threads.shutdown)
        for connection in self._connections:
            connection.close()
        self._engine.dispose()


def _driver(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


def _truncate(connection: Connection) -> bool:
    ((busy, *_),) = _driver(connection).execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    return not busy


def _upgrade(path: Path) -> None:
    engine = _engine(path)
    try:
        with engine.connect() as connection:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
            upgrade(connection)
    finally:
        engine.dispose()


def _open_lock(path: Path) -> int:
    try:
        return os.open(path.with_name(path.name + ".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise StartError(f"cannot open {error.filename}: {error.strerror}") from error


def _take_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _engine(path: Path) -> Engine:
    url = URL.create("sqlite", database=str(path))  # as text, a question mark in the path would end it
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT / 1000, "isolation_level": None})

    @event.listens_for(engine, "connect")
    def configure(driver: sqlite3.Connection, _: object) -> None:
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            f"cache_size = -{CACHE}",
            # What is deleted is overwritten with zeros.
            "secure_delete = ON",
        ):
            driver.execute(f"PRAGMA {pragma}")

    return engine


def _reason(error: Exception) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error)
