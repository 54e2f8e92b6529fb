"""SQLite: one writer thread, a few reader threads, and a lock file that keeps a second server off.

The driver is synchronous and lives in threads of its own: a transaction costs one hop to a thread instead of one a
statement.
"""

import asyncio
import fcntl
import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

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
        self._writer = _engine(path, "BEGIN IMMEDIATE")
        try:
            held = not _take_lock(self._lock)
            if held and not beside_server:
                raise StartError(f"another server holds {path}")
            if not held:
                with self._writer.connect() as connection:
                    upgrade(connection)
        except BaseException as error:
            self._writer.dispose()
            os.close(self._lock)
            if isinstance(error, DBAPIError | sqlite3.Error):
                raise StartError(f"cannot open {path}: {_reason(error)}") from error
            raise
        self._readers = _engine(path, "BEGIN")
        self._write_thread = ThreadPoolExecutor(1, "askd-writer")
        self._read_threads = ThreadPoolExecutor(READERS, "askd-reader")

    async def upgrade(self) -> None:
        """See Database. Opening has done so."""

    async def check(self) -> None:
        """See Database. Opening has done so."""

    async def read(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await _run(self._read_threads, self._readers, transaction)

    async def write(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await _run(self._write_thread, self._writer, transaction)

    async def scrub(self) -> bool:
        """See Database. Pages as they were before a deletion lie in the write-ahead log until it is emptied."""
        return await asyncio.get_running_loop().run_in_executor(self._write_thread, self._truncate)

    def _truncate(self) -> bool:
        # Through the driver, since whatever SQLAlchemy runs is within a transaction, and that hinders a checkpoint.
        try:
            with closing(self._writer.raw_connection()) as connection, closing(connection.cursor()) as cursor:
                cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                ((busy, *_),) = cursor.fetchall()
        except sqlite3.Error as error:
            raise OperationalError(None, None, error) from error
        return not busy

    async def close(self) -> None:
        """See Database."""
        for threads in (self._read_threads, self._write_thread):
            await asyncio.get_running_loop().run_in_executor(None, threads.shutdown)
        self._readers.dispose()
        self._writer.dispose()
        os.close(self._lock)


async def _run(threads: ThreadPoolExecutor, engine: Engine, transaction: Transaction[T]) -> T:
    def work() -> T:
        try:
            with engine.begin() as connection:
                return transaction(connection)
        except sqlite3.Error as error:  # from setting up a connection, which SQLAlchemy does not wrap
            raise OperationalError(None, None, error) from error

    # Cancelling the await leaves the thread to finish, which gives its connection back.
    return await asyncio.get_running_loop().run_in_executor(threads, work)


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


def _engine(path: Path, begin: str) -> Engine:
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

    @event.listens_for(engine, "begin")
    def start(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return engine


def _reason(error: Exception) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error)
