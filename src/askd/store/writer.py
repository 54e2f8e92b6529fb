"""The writer: takes whatever commands wait and commits them together (DESIGN, second idea)."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from sqlalchemy.exc import OperationalError, SQLAlchemyError

from askd.domain.asks import AskEvent
from askd.domain.errors import AskdError, unavailable
from askd.domain.sessions import Command
from askd.store.batch import Outcome, apply
from askd.store.database import Database, refusal

log = logging.getLogger(__name__)

#: Commands that may wait; one more is refused as unavailable.
QUEUE = 4096
#: Commands in one transaction: bounds how long a command waits behind others.
BATCH = 256

Clock = Callable[[], int]
Publish = Callable[[Sequence[AskEvent]], None]
_Waiting = tuple[Command, asyncio.Future[Outcome]]


class Writer:
    """Commits commands in the order they came. `publish` hears of every event once its commit is done."""

    def __init__(self, database: Database, clock: Clock, publish: Publish) -> None:
        self._database = database
        self._clock = clock
        self._publish = publish
        self._queue: deque[_Waiting] = deque()
        self._filled = asyncio.Event()
        self._closed = False
        #: Whether the last write failed for a reason of the database's.
        self.failing = False
        self._task = asyncio.create_task(self._run(), name="writer")

    async def submit(self, command: Command) -> Outcome:
        """Hand over a command and wait for what becomes of it. Raises AskdError.

        A caller that is cancelled leaves its command to its fate; the ids that it was made with tell a retry.
        """
        if self._closed:
            raise unavailable("the server is draining")
        if len(self._queue) >= QUEUE:
            raise unavailable("too many changes are waiting")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        self._queue.append((command, future))
        self._filled.set()
        return await future

    async def close(self) -> None:
        """Refuse new commands and finish those that wait."""
        self._closed = True
        self._filled.set()
        await self._task

    async def _run(self) -> None:
        while self._queue or not self._closed:
            await self._filled.wait()
            if batch := self._take():
                await self._commit(batch)
            elif not self._queue and not self._closed:
                self._filled.clear()

    def _take(self) -> list[_Waiting]:
        taken = [self._queue.popleft() for _ in range(min(len(self._queue), BATCH))]
        return [waiting for waiting in taken if not waiting[1].cancelled()]

    async def _commit(self, batch: list[_Waiting]) -> None:
        try:
            await self._attempt(batch, uncertain=False)
        except Exception as error:  # a batch must not end the writer
            self._note(error)
            await self._retry(batch)

    async def _retry(self, batch: list[_Waiting]) -> None:
        """One at a time, so that one bad command hurts nobody else; each looks whether it was committed after all.
        Where the database is away they fail together: it would keep each waiting in turn."""
        away: Exception | None = None
        for waiting in batch:
            try:
                if away is None:
                    await self._attempt([waiting], uncertain=True)
                    continue
            except Exception as error:
                self._note(error)
                _fail(waiting[1], error)
                away = error if isinstance(error, OperationalError) else None
            else:
                _fail(waiting[1], away)

    async def _attempt(self, batch: list[_Waiting], *, uncertain: bool) -> None:
        commands = [command for command, _ in batch]
        now = self._clock()
        applied = await self._database.write(lambda connection: apply(connection, commands, now, uncertain=uncertain))
        self.failing = False
        # Published first: whoever is told of its own change finds the watchers told, too.
        self._publish(applied.events)
        for (_, future), outcome in zip(batch, applied.outcomes, strict=True):
            if not future.done():
                _complete(future, outcome)

    def _note(self, error: Exception) -> None:
        self.failing = self.failing or isinstance(error, SQLAlchemyError)
        log.error("a write failed: %s", describe(error))


def _complete(future: asyncio.Future[Outcome], outcome: Outcome | AskdError) -> None:
    if isinstance(outcome, AskdError):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)


def _fail(future: asyncio.Future[Outcome], error: Exception) -> None:
    if not future.done():
        future.set_exception(refusal(error))


def describe(error: Exception) -> str:
    """An error for the log, without the statement and its parameters, which hold what users wrote."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {cause}"
