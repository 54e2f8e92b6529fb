"""SQLite: one writer thread, a few reader threads, and a lock file that keeps a second server off.

The driver is synchronous and lives in threads of its own: a transaction costs one hop to a thread instead of one a
statement.
"""

import fcntl
import os
import sqlite3
from pathlib import Path
from typing import TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError

from askd.store.database import Hints, StartError, Transaction
from askd.store.migrations import upgrade
from askd.store.threads import Threads, driver_of

T = TypeVar("T")

READERS = 2
#: Reads that share a transaction.
TOGETHER = 16
#: How long a statement waits for a lock that another process holds, in milliseconds.
BUSY_TIMEOUT = 1000
#: Pages kept in memory by each connection, in KiB.
CACHE = 32 * 1024
#: Pages of the write-ahead log after which a commit copies them to the database, each once however often it changed.
CHECKPOINT = 4096


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
        self._writer = Threads(_engine(path), "writer", "BEGIN IMMEDIATE")
        self._readers = Threads(_engine(path), "reader", "BEGIN", count=READERS, together=TOGETHER)

    async def upgrade(self) -> None:
        """See Database. Opening has done so."""

    async def check(self) -> None:
        """See Database. Opening has done so."""

    async def read(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await self._readers.run(transaction)

    async def write(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await self._writer.run(transaction)

    async def scrub(self) -> bool:
        """See Database. Pages as they were before a deletion lie in the write-ahead log until it is emptied."""
        return await self._writer.run(_truncate)

    async def close(self) -> None:
        """See Database."""
        await self._readers.close()
        await self._writer.close()
        os.close(self._lock)


def _truncate(connection: Connection) -> bool:
    driver = driver_of(connection)
    driver.execute("COMMIT")  # a transaction would hinder it
    ((busy, *_),) = driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    driver.execute("BEGIN")  # which is then committed
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
            f"wal_autocheckpoint = {CHECKPOINT}",
            "foreign_keys = ON",
            f"cache_size = -{CACHE}",
            # What is deleted is overwritten with zeros.
            "secure_delete = ON",
        ):
            driver.execute(f"PRAGMA {pragma}")

    return engine


def _reason(error: Exception) -> str:
    return str(error.orig if isinstance(error, DBAPIError) else error)
