"""A database whose transactions a test holds up and breaks."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy.exc import OperationalError

from askd.store.database import Database, Transaction

T = TypeVar("T")


def away() -> OperationalError:
    """What a driver raises where its database does not answer."""
    return OperationalError("SECRET STATEMENT", {"body": "SECRET PARAMETER"}, Exception("disk I/O error"))


class Gate:
    """Where transactions wait until a test lets them through."""

    def __init__(self) -> None:
        self._reached = asyncio.Event()
        self._open = asyncio.Event()

    async def reached(self) -> None:
        """Wait until a transaction is here."""
        await self._reached.wait()

    def open(self) -> None:
        """Let everybody through, now and later."""
        self._open.set()

    async def pass_through(self) -> None:
        self._reached.set()
        await self._open.wait()


class Stage(Database):
    """A database between a test and a real one."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.writers = database.writers
        self.hints = database.hints
        #: How many transactions were asked for.
        self.reads = 0
        self.writes = 0
        #: What transactions fail with, before they begin.
        self.failure: Exception | None = None
        #: Which writes, counted from 1, fail before they begin, and which are committed and fail nevertheless.
        self.failed_writes: set[int] = set()
        self.lost_answers: set[int] = set()
        self._before_write: Gate | None = None
        self._before_read: Gate | None = None
        self._after_read: Gate | None = None
        self._after_write: Gate | None = None

    async def read(self, transaction: Transaction[T]) -> T:
        """See Database."""
        self.reads += 1
        await _pass(self._before_read)
        if self.failure is not None:
            raise self.failure
        found = await self._database.read(transaction)
        await _pass(self._after_read)
        return found

    async def write(self, transaction: Transaction[T]) -> T:
        """See Database."""
        self.writes += 1
        number = self.writes
        await _pass(self._before_write)
        if self.failure is not None:
            raise self.failure
        if number in self.failed_writes:
            raise away()
        written = await self._database.write(transaction)
        await _pass(self._after_write)
        if number in self.lost_answers:
            raise away()
        return written

    async def check(self) -> None:
        """See Database."""
        await self._database.check()

    async def upgrade(self) -> None:
        """See Database."""
        await self._database.upgrade()

    async def scrub(self) -> bool:
        """See Database."""
        if self.failure is not None:
            raise self.failure
        return await self._database.scrub()

    async def close(self) -> None:
        """See Database."""
        await self._database.close()

    @contextmanager
    def holding_writes(self) -> Iterator[Gate]:
        """Hold up every write before it begins."""
        self._before_write = Gate()
        yield self._before_write
        self._before_write.open()
        self._before_write = None

    @contextmanager
    def holding_reads(self) -> Iterator[Gate]:
        """Hold up every read before it begins."""
        self._before_read = Gate()
        yield self._before_read
        self._before_read.open()
        self._before_read = None

    @contextmanager
    def holding_what_was_read(self) -> Iterator[Gate]:
        """Hold up what reads have found."""
        self._after_read = Gate()
        yield self._after_read
        self._after_read.open()
        self._after_read = None

    @contextmanager
    def holding_what_was_written(self) -> Iterator[Gate]:
        """Hold up the answers to writes that are committed."""
        self._after_write = Gate()
        yield self._after_write
        self._after_write.open()
        self._after_write = None


async def _pass(gate: Gate | None) -> None:
    if gate is not None:
        await gate.pass_through()
