"""The writer: takes whatever commands wait and commits them together (DESIGN, second idea)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TypeVar
from zlib import crc32

from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from askd.domain.asks import Ask, AskEvent
from askd.domain.errors import AskdError, unavailable
from askd.domain.sessions import Command, workspace_of
from askd.store.batch import Applied, Outcome, apply
from askd.store.cache import AskCache
from askd.store.database import Database, LockedError
from askd.store.lanes import Aside, Lane, Waiting
from askd.store.memory import Memory
from askd.store.state import find_locked

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Commands that may wait in a lane; one more is refused as unavailable.
QUEUE = 4096
#: Commands in one transaction: bounds how long a command waits behind others.
BATCH = 256

Clock = Callable[[], int]
Publish = Callable[[Sequence[AskEvent]], None]


class Writer:
    """Commits commands, those of a workspace in the order they came. `publish` hears of every event once its commit is
    done. `cache` is for a server that has its database to itself, which then remembers more than asks.

    A workspace has its lane, by a hash that all servers share, and each lane commits a batch at a time. A workspace
    whose row somebody keeps locked is set aside, where its commands are tried on their own and stop no other.
    """

    def __init__(self, database: Database, clock: Clock, publish: Publish, cache: AskCache | None = None) -> None:
        self._database = database
        self._cache = cache
        self._memory = Memory() if cache else None
        self._clock = clock
        self._publish = publish
        self._closed = False
        #: Whether the last write failed for a reason of the database's.
        self.failing = False
        self._lanes = [Lane(self._take_and_commit, f"writer {number}") for number in range(database.writers)]
        self._aside = Aside(self._commit_aside, lambda waiting: self._lane(waiting.workspace_id).put_first(waiting))

    @property
    def waiting(self) -> int:
        """How many commands wait for their turn."""
        return sum(len(lane.queue) for lane in self._lanes) + len(self._aside)

    def submit(self, command: Command) -> Awaitable[Outcome]:
        """Hand over a command. Awaiting returns what becomes of it and raises AskdError.

        A caller that is cancelled leaves its command to its fate; the ids that it was made with tell a retry.
        """
        return self.enqueue(workspace_of(command), lambda: command, lambda outcome: outcome)

    def enqueue(self, workspace_id: str, make: Callable[[], Command], finish: Callable[[Outcome], T]) -> Awaitable[T]:
        """Hand over a command that is made when its turn comes. Awaiting returns what `finish` makes of its outcome,
        and raises what `make` or `finish` does, and AskdError."""
        if self._closed:
            raise unavailable("the server is draining")
        waiting = Waiting(workspace_id, make, finish)
        if waiting.workspace_id in self._aside:
            self._aside.put(waiting)
        else:
            lane = self._lane(waiting.workspace_id)
            if len(lane.queue) >= QUEUE:
                raise unavailable("too many changes are waiting")
            lane.put(waiting)
        return waiting.future

    def _lane(self, workspace_id: str) -> Lane:
        return self._lanes[crc32(workspace_id.encode(errors="replace")) % len(self._lanes)]

    async def close(self) -> None:
        """Refuse new commands and finish those that wait."""
        self._closed = True
        self._aside.finish()
        for lane in self._lanes:
            await lane.close()
        await self._aside.close()

    async def _take_and_commit(self, lane: Lane) -> None:
        batch = []
        for waiting in lane.take(BATCH):
            if waiting.workspace_id in self._aside:  # where those before it wait
                self._aside.put(waiting)
            else:
                batch.append(waiting)
        if batch:
            await self._commit(batch)

    async def _commit(self, batch: list[Waiting]) -> None:
        try:
            await self._attempt(batch)
        except LockedError:
            await self._set_aside(batch)
        except Exception as error:  # a batch must not end the writer
            self._note(error)
            await self._retry(batch)

    async def _set_aside(self, batch: list[Waiting]) -> None:
        """Put the commands of locked workspaces aside and commit the others without them."""
        locked = await self._find_locked({waiting.workspace_id for waiting in batch})
        for waiting in batch:
            if waiting.workspace_id in locked:
                self._aside.put(waiting)
        if free := [waiting for waiting in batch if waiting.workspace_id not in locked]:
            await self._commit(free)

    async def _find_locked(self, ids: set[str]) -> set[str]:
        """Which workspaces are locked. All of them, where that cannot be told: aside, each is tried alone."""
        try:
            found = await self._database.write(partial(find_locked, ids=ids)) if len(ids) > 1 else ids
        except SQLAlchemyError:
            return ids
        return found or ids

    async def _commit_aside(self, batch: list[Waiting]) -> bool:
        """Commit commands of one workspace. Returns False where it is locked."""
        try:
            await self._attempt(batch)
        except LockedError:
            return False
        except Exception as error:  # as above
            self._note(error)
            await self._retry(batch)
        return True

    async def _retry(self, batch: list[Waiting]) -> None:
        """One at a time, so that one bad command hurts nobody else; each looks whether it was committed after all.
        Where the database is away they fail together: it would keep each waiting in turn."""
        away: Exception | None = None
        for waiting in batch:
            waiting.uncertain = True
            try:
                if away is None:
                    await self._attempt([waiting])
                    continue
            except LockedError:
                self._aside.put(waiting)
            except Exception as error:
                self._note(error)
                waiting.fail(error)
                away = error if isinstance(error, OperationalError) else None
            else:
                waiting.fail(away)

    async def _attempt(self, batch: list[Waiting]) -> None:
        commands = [waiting.command for waiting in batch]
        uncertain = any(waiting.uncertain for waiting in batch)
        now, loop = self._clock(), asyncio.get_running_loop()
        changing: AbstractContextManager[list[Ask]] = self._cache.changing(commands) if self._cache else nullcontext([])
        pending = self._cache.pending(commands) if self._cache and not uncertain else {}

        def transaction(connection: Connection) -> Applied:
            applied = apply(connection, commands, now, uncertain=uncertain, memory=self._memory, pending=pending)
            # While it is being committed, the event loop makes of it what callers are told.
            loop.call_soon_threadsafe(_conclude, batch, applied.outcomes)
            return applied

        with changing as committed:
            applied = await self._database.write(transaction)
            if self._memory:
                self._memory.confirm(commands)
            if not uncertain:  # else an event may be older than what became of its ask
                committed += [event.ask for event in applied.events]
        self.failing = False
        # Published first: whoever is told of its own change finds the watchers told, too.
        self._publish(applied.events)
        for waiting, outcome in zip(batch, applied.outcomes, strict=True):
            waiting.finish(outcome)

    def _note(self, error: Exception) -> None:
        self.failing = self.failing or isinstance(error, SQLAlchemyError)
        log.error("a write failed: %s", describe(error))


def _conclude(batch: Sequence[Waiting], outcomes: Sequence[Outcome | AskdError]) -> None:
    for waiting, outcome in zip(batch, outcomes, strict=True):
        waiting.conclude(outcome)


def describe(error: Exception) -> str:
    """An error for the log, without the statement and its parameters, which hold what users wrote."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {cause}"
