"""Threads that keep a connection each, in which SQLite's transactions run.

A transaction is begun and ended by the driver itself, and a thread hands its results back in one go: what SQLAlchemy
and an executor do at each costs as much as a small transaction.
"""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple, TypeVar, cast

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from askd.store.database import Transaction

T = TypeVar("T")

#: Seconds that a result waits at most for those after it, unless one takes longer.
HELD = 0.002


class _Job(NamedTuple):
    """A function of a connection, and the future of whoever waits for its result."""

    work: Transaction[Any]
    future: "asyncio.Future[Any]"


class _Done(NamedTuple):
    """What came of a job."""

    job: _Job
    result: object
    error: BaseException | None


class Threads:
    """Each of `count` threads takes up to `together` of the functions that wait and runs them in one transaction, which
    `begin` begins. Where that is more than one they must only read."""

    def __init__(self, engine: Engine, name: str, begin: str, *, count: int = 1, together: int = 1) -> None:
        self._engine = engine
        self._begin = begin
        self._together = together
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        #: The threads that are in a transaction.
        self._busy: set[int] = set()
        names = [f"askd-{name}-{number}" for number in range(count)]
        self._threads = [threading.Thread(target=self._serve, name=each, daemon=True) for each in names]
        for thread in self._threads:
            thread.start()

    @property
    def open_transactions(self) -> int:
        """How many transactions are under way."""
        return len(self._busy)  # the driver says so before a commit is done

    async def run(self, work: Transaction[T]) -> T:
        """Run a function in a transaction, to its end even where the caller is cancelled."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._jobs.put(_Job(work, future))
        return await future

    async def close(self) -> None:
        """Finish what waits and close the connections."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            await asyncio.to_thread(thread.join)
        self._engine.dispose()

    def _serve(self) -> None:
        connection: Connection | None = None
        while jobs := self._take():
            self._busy.add(threading.get_ident())
            try:
                connection = connection or self._engine.connect()
                done = self._run(connection, jobs)
            except BaseException as error:  # whatever it is, it is the callers'
                done = [_Done(job, None, error) for job in jobs]
                connection = connection and _recover(connection)
            self._busy.discard(threading.get_ident())
            _deliver(done)
            del jobs, done  # or what they hold would be kept until the next come
        if connection is not None:
            connection.close()

    def _take(self) -> list[_Job]:
        """The next functions; none where it is over."""
        jobs: list[_Job] = []
        job = self._jobs.get()
        while job is not None:
            jobs.append(job)
            if len(jobs) == self._together or self._jobs.empty():
                return jobs
            try:
                job = self._jobs.get_nowait()
            except Empty:  # another thread was quicker
                return jobs
        if jobs:
            self._jobs.put(None)  # it is over after these
        return jobs

    def _run(self, connection: Connection, jobs: Sequence[_Job]) -> list[_Done]:
        """Run the functions. Returns what is not delivered yet."""
        driver = driver_of(connection)
        driver.execute(self._begin)
        done: list[_Done] = []
        since = time.monotonic()
        for job in jobs:
            done.append(_do(job, connection))
            if self._together > 1 and time.monotonic() - since > HELD:
                _deliver(done)
                done, since = [], time.monotonic()
        failed = any(each.error for each in done)
        if not failed or driver.in_transaction:  # SQLite ends some by itself
            driver.execute("ROLLBACK" if failed else "COMMIT")
        return done


def _recover(connection: Connection) -> Connection | None:
    """The connection, with no transaction open, or None where it cannot be used again."""
    try:
        if driver_of(connection).in_transaction:
            driver_of(connection).execute("ROLLBACK")
    except sqlite3.Error:
        connection.invalidate()
        connection.close()
        return None
    return connection


def driver_of(connection: Connection) -> sqlite3.Connection:
    """The driver's connection."""
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


def _do(job: _Job, connection: Connection) -> _Done:
    try:
        return _Done(job, job.work(connection), None)
    except BaseException as error:  # whatever it is, it is the caller's
        return _Done(job, None, error)


def _deliver(done: Sequence[_Done]) -> None:
    if done and not (loop := done[0].job.future.get_loop()).is_closed():
        loop.call_soon_threadsafe(_settle, done)


def _settle(done: Sequence[_Done]) -> None:
    for (_, future), result, error in done:
        if future.done():
            continue
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(_wrapped(error))


def _wrapped(error: BaseException) -> BaseException:
    """The driver's own errors, which SQLAlchemy had no part in, as it would tell them."""
    return OperationalError(None, None, error) if isinstance(error, sqlite3.Error) else error
