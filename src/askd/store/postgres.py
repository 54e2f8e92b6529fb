"""PostgreSQL through asyncpg: for several servers on one database.

A transaction is begun and ended here and not by SQLAlchemy: one round trip brings the isolation level and every timeout
along, so that nothing depends on settings of a session, which a pooler in transaction mode would mix up; and where a
connection turns out to be dead at it, nothing was done yet, which saves the round trip of a ping before.
"""

import asyncio
import contextlib
import inspect
import random
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import URL, event
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.exc import DBAPIError, DisconnectionError, OperationalError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from askd.store import migrations
from askd.store.database import Hints, LockedError, StartError, Transaction, deadline
from askd.store.listener import Listener

T = TypeVar("T")

#: Writers, and connections of each server: one for each writer, one for what was set aside, two for keys, sweeps and
#: health; and those that read. With the listener's a server has at most WRITES + READS + 1.
WRITERS = 4
WRITES = WRITERS + 3
READS = 4

#: How long a transaction waits for a lock. Another server's batch lasts a few milliseconds.
LOCK_MS = 200
#: How long a statement runs at most, where no call's deadline comes earlier.
STATEMENT_MS = 10_000
#: How long a transaction that writes may idle. That of a server that was suspended ends, and others go on with its
#: workspaces. One that reads locks nothing, and idles while what it found is converted.
IDLE_MS = 5_000
READ_IDLE_MS = 60_000
#: Seconds for a connection to be made or to begin, for an answer, and to wait for a free connection.
CONNECT = 5.0
ANSWER = 15.0
FREE = 10.0
#: Seconds for transactions to finish when the database is closed.
CLOSE = 2.0
#: Seconds after which a connection is made anew.
LIFETIME = 1800
#: Statements that a connection keeps prepared.
PREPARED = 500
#: How often a transaction is run that others interfere with.
TRIES = 4

#: SQLAlchemy's name in a URL for the number of statements that a connection keeps prepared.
_CACHE = "prepared_statement_cache_size"

_WRITE = (
    "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
    f" SET LOCAL lock_timeout = {LOCK_MS}; SET LOCAL statement_timeout = {STATEMENT_MS};"
    f" SET LOCAL idle_in_transaction_session_timeout = {IDLE_MS}"
)
_READ = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
    f" SET LOCAL idle_in_transaction_session_timeout = {READ_IDLE_MS}; SET LOCAL statement_timeout = "
)

_LOCKED = "55P03"
#: Serialization failures and deadlocks: rolled back for certain, and to be tried again.
_CONFLICTS = ("40001", "40P01")
#: Errors, or classes of them, that are the database's and no command's: connection, authorization, resources,
#: intervention (an exceeded timeout, too), system; and a server that became a standby.
_AWAY = ("08", "28", "3D", "53", "57", "58", "25006")

_DRIVER_S = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


class _ConflictError(SQLAlchemyError):
    """The transaction was rolled back because of another, and may be tried again."""


class PostgresDatabase:
    """A PostgreSQL database, for any number of servers. `listen_url` leads to the same past a pooler."""

    writers = WRITERS

    def __init__(self, url: URL, listen_url: URL) -> None:
        self._url = _with_driver(url)
        self._writes = _Pool(self._url, WRITES)
        self._reads = _Pool(self._url, READS)
        self.hints: Hints | None = Listener(_arguments(_with_driver(listen_url), self._reads.engine))

    async def check(self) -> None:
        """See Database."""
        try:
            await self.read(migrations.check)
        except SQLAlchemyError as error:
            raise _start_error(error) from error

    async def upgrade(self) -> None:
        """See Database."""
        engine = make_engine(self._url, 1, "READ COMMITTED")
        try:
            with _telling():
                async with engine.connect() as connection:
                    await connection.run_sync(migrations.upgrade)
        except SQLAlchemyError as error:
            raise _start_error(error) from error
        finally:
            await engine.dispose()

    async def read(self, transaction: Transaction[T]) -> T:
        """See Database."""
        begin = f"{_READ}{_milliseconds_left()}"
        return await self._reads.run(lambda engine: _transact(engine, begin, transaction))

    async def write(self, transaction: Transaction[T]) -> T:
        """See Database."""
        return await self._writes.run(lambda engine: _persist(engine, transaction))

    async def scrub(self) -> bool:
        """See Database. What was deleted is in PostgreSQL's files until it vacuums, and in its log."""
        return True

    async def close(self) -> None:
        """See Database."""
        for pool in (self._reads, self._writes):
            await pool.close()


def _milliseconds_left() -> int:
    left = deadline.get() - asyncio.get_running_loop().time()
    return max(1, int(min(left * 1000, STATEMENT_MS)))


class _Pool:
    """Connections for one kind of transaction. A transaction runs in a task of its own, which goes on where its caller
    leaves; a caller that leaves before a connection is free costs nothing."""

    def __init__(self, url: URL, size: int) -> None:
        self.engine = make_engine(url, size, "AUTOCOMMIT")
        self._free = asyncio.Semaphore(size)
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, work: Callable[[AsyncEngine], Coroutine[Any, Any, T]]) -> T:
        """Run what needs one connection."""
        try:
            async with asyncio.timeout(FREE):
                await self._free.acquire()
        except TimeoutError as error:
            raise _away(TimeoutError("no connection became free")) from error
        task = asyncio.create_task(work(self.engine))
        self._running.add(task)
        task.add_done_callback(self._finished)
        return await asyncio.shield(task)

    def _finished(self, task: "asyncio.Task[Any]") -> None:
        self._running.discard(task)
        self._free.release()
        if not task.cancelled():
            task.exception()  # looked at, since the caller may have left

    async def close(self) -> None:
        """Finish what runs and close every connection. A database that does not answer is not waited for."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE):
                while self._running:
                    await asyncio.wait(self._running)
                await self.engine.dispose()


async def _persist(engine: AsyncEngine, transaction: Transaction[T]) -> T:
    for _ in range(TRIES - 1):
        with contextlib.suppress(_ConflictError):
            return await _transact(engine, _WRITE, transaction)
        await asyncio.sleep(random.uniform(0.001, 0.02))  # noqa: S311  # so that the two do not meet again
    return await _transact(engine, _WRITE, transaction)


async def _transact(engine: AsyncEngine, begin: str, transaction: Transaction[T]) -> T:
    with _telling():
        connection, driver = await _begin(engine, begin)
        try:
            result = await connection.run_sync(transaction)
            await _commit(driver)
        except BaseException:
            await _roll_back(connection, driver)
            raise
        finally:
            await connection.close()
        return result


async def _begin(engine: AsyncEngine, begin: str) -> tuple[AsyncConnection, Any]:
    """A connection that has begun. One that died unnoticed since it was last used is replaced, once."""
    try:
        with contextlib.suppress(Exception):
            return await _try_begin(engine, begin)
        return await _try_begin(engine, begin)
    except Exception as error:  # nothing was done: whatever it is, it is no command's fault
        raise _away(_cause(error)) from error


async def _try_begin(engine: AsyncEngine, begin: str) -> tuple[AsyncConnection, Any]:
    connection = await engine.connect()
    try:
        driver = (await connection.get_raw_connection()).driver_connection
        await driver.execute(begin, timeout=CONNECT)  # type: ignore[union-attr]  # connected just now
    except BaseException:
        await connection.invalidate()
        await connection.close()
        raise
    return connection, driver


async def _commit(driver: Any) -> None:
    status = await driver.execute("COMMIT")
    if status != "COMMIT":  # what PostgreSQL says where a statement failed that the transaction did not mind
        raise RuntimeError(f"a transaction ended with {status}")


async def _roll_back(connection: AsyncConnection, driver: Any) -> None:
    try:
        await driver.execute("ROLLBACK", timeout=CONNECT)
    except Exception:  # whatever it is, the connection cannot be used again
        await connection.invalidate()


class AskdDialect(PGDialect_asyncpg):
    """Leaves out the codecs of JSON columns. There are none, and setting them up takes queries outside a transaction,
    which a pooler may send to two servers."""

    supports_statement_cache = True

    def on_connect(self) -> None:
        """Do nothing with a new connection."""


registry.register("postgresql.askd", __name__, AskdDialect.__name__)


def make_engine(url: URL, size: int, isolation_level: str) -> AsyncEngine:
    """Connections to a database, at most so many."""
    engine = create_async_engine(
        url.set(drivername="postgresql+askd").difference_update_query([_CACHE]),
        pool_size=size,
        max_overflow=0,
        pool_recycle=LIFETIME,
        execution_options={"isolation_level": isolation_level},
        connect_args=_preparing(url)
        | {"timeout": CONNECT, "command_timeout": ANSWER, "server_settings": {"application_name": "askd"}},
    )

    @event.listens_for(engine.sync_engine, "checkout")
    def look(connection: Any, _: object, __: object) -> None:
        if connection.driver_connection.is_closed():
            raise DisconnectionError  # the pool makes another

    return engine


def _preparing(url: URL) -> dict[str, Any]:
    """How statements are prepared: each once a connection, or, where the URL says 0, each time and under no name, since
    some poolers forget names from one transaction to the next."""
    size = url.query.get(_CACHE, str(PREPARED))
    if not isinstance(size, str) or not size.isdecimal():
        raise StartError(f"the database's URL: {_CACHE} must be a number")
    if int(size):
        return {_CACHE: int(size)}
    return {_CACHE: 0, "statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}


def _with_driver(url: URL) -> URL:
    if url.drivername not in ("postgresql", "postgresql+asyncpg"):
        raise StartError(f"database {url.drivername!r} is not supported: the driver is asyncpg")
    return url.set(drivername="postgresql+asyncpg")


def _arguments(url: URL, engine: AsyncEngine) -> dict[str, Any]:
    """What asyncpg connects with where a URL is given, as SQLAlchemy takes it apart. Raises StartError."""
    _, arguments = engine.dialect.create_connect_args(url)
    arguments.pop(_CACHE, None)
    for unknown in arguments.keys() - inspect.signature(asyncpg.connect).parameters.keys():
        raise StartError(f"the database's URL: asyncpg has no option {unknown!r}")
    return dict(arguments)


@contextmanager
def _telling() -> Iterator[None]:
    """Turn errors of the driver into those that Database promises."""
    try:
        yield
    except (SQLAlchemyError, *_DRIVER_S) as error:
        raise _told(error) from error
    except OSError as error:
        if error.filename is not None:  # a file's, and the transaction's own
            raise
        raise _away(error) from error


def _told(error: Exception) -> Exception:
    cause = _cause(error)
    state = getattr(cause, "sqlstate", None) or ""
    if state == _LOCKED:
        return LockedError("a row is locked")
    if state in _CONFLICTS:
        return _ConflictError("another transaction interfered")
    if isinstance(cause, _DRIVER_S) and isinstance(cause.__cause__, ValueError):
        return cause.__cause__  # a value that the driver cannot even send: a fault of the program's
    is_driver_s = isinstance(cause, (*_DRIVER_S, OSError))
    return _away(cause) if is_driver_s and (not state or state.startswith(_AWAY)) else error


def _cause(error: BaseException) -> BaseException:
    return (error.driver_exception or error) if isinstance(error, DBAPIError) else error


def _away(cause: BaseException) -> OperationalError:
    """Tells that the database is away; without the detail, which may hold what users wrote."""
    if isinstance(cause, asyncpg.PostgresError):
        cause = type(cause)(*cause.args[:1])
    return cause if isinstance(cause, OperationalError) else OperationalError(None, None, cause)


def _start_error(error: SQLAlchemyError) -> StartError:
    said = str(getattr(error, "orig", None) or _cause(error))
    return StartError(f"cannot use the database: {said.partition(chr(10))[0]}")  # without the driver's hints
