"""The sweeper: does in small chunks what time or a crash left to do (CONTRACT section 4).

It cancels asks that are due, finishes ends of sessions and turns, and erases payloads past their retention. Any server
may do any of it: every change is a command that finds out under the workspace's lock what is left to do.
"""

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Any, TypeVar

from askd.domain.asks import CancelAsks, CancelReason
from askd.domain.errors import AskdError
from askd.domain.sessions import Session, Turn
from askd.service.hub import Hub
from askd.service.ids import new_ulid
from askd.store import sweeps
from askd.store.database import Database, refusing
from askd.store.reader import Reader
from askd.store.writer import Clock, Writer, describe

T = TypeVar("T")

log = logging.getLogger(__name__)

#: Seconds between sweeps; an ask is cancelled within two of its time.
PERIOD = 1.0
#: How long to rest after a chunk, in times of what it took: asks and answers of others keep their latency within twice
#: what it is otherwise, also on a busy machine (measured: 1.0 to 1.3 times; with a rest of 2 up to 2 times).
REST = 3.0
#: Microseconds by which the clocks of servers may differ: another may erase so much earlier.
_SKEW = 60_000_000


async def _paced(chunk: Awaitable[T]) -> T:
    """Do a chunk, then rest REST times as long as it took: a backlog leaves a good part of the server to others."""
    started = time.monotonic()
    result = await chunk
    await asyncio.sleep((time.monotonic() - started) * REST)
    return result


async def _see_through(tasks: Sequence[asyncio.Task[None]]) -> bool:
    """Wait for tasks, but not for long: one whose workspace somebody keeps locked goes on by itself and delays no
    other. Returns whether all are done. Raises what one raises."""
    if not tasks:
        return True
    done, late = await asyncio.wait(tasks, timeout=PERIOD)
    for task in done:
        task.result()
    return not late


class Sweeper:
    """Sweeps one database. `retention` is how many microseconds payloads are kept after a resolution; 0 keeps them."""

    def __init__(
        self, database: Database, writer: Writer, reader: Reader, hub: Hub, clock: Clock, retention: int
    ) -> None:
        self._database = database
        self._writer = writer
        self._reader = reader
        self._hub = hub
        self._clock = clock
        self._retention = retention
        self._finishing: dict[tuple[str, ...], asyncio.Task[None]] = {}
        self._scrubbed = True

    async def run(self) -> None:
        """Sweep again and again, until cancelled."""
        while True:
            try:
                await self.run_once()
            except AskdError as error:
                log.warning("the sweep stopped: %s", error.message)
            except Exception as error:  # a sweep must not end the sweeper
                log.exception("the sweep failed: %s", describe(error))
            await asyncio.sleep(PERIOD * random.uniform(0.7, 1.0))  # noqa: S311  # many servers share a database

    async def run_once(self) -> None:
        """Do all that is due now."""
        await self._expire()
        await _see_through([self.start_finishing(end) for end in await self._reader.read(sweeps.load_ends)])
        await self._erase()

    async def _expire(self) -> None:
        while due := await self._reader.read(lambda connection: sweeps.load_due(connection, self._clock())):
            expiring = [
                self._start((workspace_id,), partial(self._cancel, workspace_id, ids, CancelReason.EXPIRED, None))
                for workspace_id, ids in due.items()
            ]
            if not await _see_through(expiring):
                return

    def start_finishing(self, end: Session | Turn) -> asyncio.Task[None]:
        """Cancel what an end left pending, in a task that goes on when its caller leaves; one task an end."""
        key = (end.workspace_id, end.session_id, *((end.turn_id,) if isinstance(end, Turn) else ()))
        return self._start(key, partial(self._finish, end))

    def _start(self, key: tuple[str, ...], work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        def forget(task: asyncio.Task[None]) -> None:
            self._finishing.pop(key, None)
            if not task.cancelled():
                task.exception()  # looked at, since nobody may wait for it any more

        task = self._finishing.get(key)
        if task is None:
            # In a context of its own: it is shared, and ends at no one's deadline.
            task = self._finishing[key] = asyncio.create_task(work(), name="sweep", context=Context())
            task.add_done_callback(forget)
        return task

    async def _finish(self, end: Session | Turn) -> None:
        while ids := await self._reader.read(lambda connection: sweeps.load_left(connection, end)):
            await self._cancel(end.workspace_id, ids, end.cancel_reason, end)
        with refusing():
            await self._database.write(lambda connection: sweeps.finish_end(connection, end))

    async def _cancel(
        self, workspace_id: str, ids: list[str], reason: CancelReason, end: Session | Turn | None
    ) -> None:
        by = end.ended_by if end else None
        command = CancelAsks(workspace_id=workspace_id, id=new_ulid(), ask_ids=ids, reason=reason, by=by)
        await _paced(self._writer.submit(command))

    async def _erase(self) -> None:
        if not self._retention:
            return
        before = self._clock() - self._retention
        self._hub.forget_before(before + _SKEW)
        with refusing():
            while workspaces := await _paced(self._erase_chunk(before)):
                self._scrubbed = False
                self._hub.forget(workspaces)
            if not self._scrubbed:
                self._scrubbed = await self._database.scrub()

    async def _erase_chunk(self, before: int) -> set[str]:
        try:
            workspaces = await self._database.write(lambda connection: sweeps.erase_payloads(connection, before))
        except Exception:
            self._reader.forget()  # it may have been done
            raise
        if workspaces:
            self._reader.forget()
        return workspaces

    async def close(self) -> None:
        """Stop finishing ends; the next start goes on with them."""
        for task in list(self._finishing.values()):
            task.cancel()
        await asyncio.gather(*self._finishing.values(), return_exceptions=True)
