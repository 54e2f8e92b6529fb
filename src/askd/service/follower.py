"""The follower: brings what other servers commit to the watchers and waits of this one (DESIGN, third idea), and what
this one committed without learning of it, since the answer to the commit was lost.

Hints say that something happened, sooner or not at all; a poll says so within two seconds. Either way the events are
read from the database, once for all watchers.
"""

import asyncio
import logging
import random
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from askd.domain.asks import AskEvent, AskFilter
from askd.domain.errors import AskdError
from askd.service.hub import Hub
from askd.store.database import Hint
from askd.store.pauses import Pace
from askd.store.queries import load_events, load_resolved, load_revisions
from askd.store.reader import Reader
from askd.store.writer import describe

log = logging.getLogger(__name__)

#: Seconds between polls.
PERIOD = 2.0
#: Workspaces or asks in one query of a poll.
CHUNK = 1000
#: Workspaces whose events are read at once: leaves connections to callers.
READS = 2


class Follower:
    """Follows what other servers commit to the database that `reader` reads."""

    def __init__(self, reader: Reader, hub: Hub) -> None:
        self._reader = reader
        self._hub = hub
        self._catching_up: dict[str, asyncio.Task[None]] = {}
        self._settling: set[asyncio.Task[None]] = set()
        self._reads = asyncio.Semaphore(READS)
        self._wanted = asyncio.Event()
        hub.behind = self._catch_up

    async def run(self) -> None:
        """Poll again and again, until cancelled."""
        while True:
            try:
                await self.run_once()
            except AskdError as error:
                log.warning("the poll stopped: %s", error.message)
            except Exception as error:  # a poll must not end the follower
                log.exception("the poll failed: %s", describe(error))
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(PERIOD * random.uniform(0.7, 1.0)):  # noqa: S311  # servers share a database
                await self._wanted.wait()
        except TimeoutError:
            return
        self._wanted.clear()

    async def run_once(self) -> None:
        """Poll: look whether other servers changed what is watched or waited for here."""
        for workspaces in _chunks(self._hub.watched):
            for workspace_id, revision in await self._reader.read(partial(load_revisions, ids=workspaces)):
                self._hub.hear(workspace_id, revision)
        for asks in _chunks(self._hub.waited):
            self._settle(await self._reader.read(partial(load_resolved, ids=asks)))

    def hear(self, hint: Hint) -> None:
        """Take a hint of another server, or of this one."""
        self._hub.hear(hint.workspace_id, hint.revision)
        self._settle(hint.resolved)

    def poll_soon(self) -> None:
        """Poll now: hints may have been lost."""
        self._wanted.set()

    def _settle(self, resolved: Iterable[str]) -> None:
        waited = [ask_id for ask_id in resolved if self._hub.is_waited(ask_id)]
        if waited:
            task = asyncio.create_task(self._tell(waited), name="end waits")
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _tell(self, ask_ids: Sequence[str]) -> None:
        for found in await asyncio.gather(*map(self._reader.get, ask_ids), return_exceptions=True):
            if isinstance(found, Exception):
                log.warning("a resolved ask could not be read: %s", describe(found))
            elif found is not None and not isinstance(found, BaseException):
                self._hub.settle(found)

    def _catch_up(self, workspace_id: str) -> None:
        if workspace_id not in self._catching_up:
            task = asyncio.create_task(self._read_gaps(workspace_id), name="catch up")
            self._catching_up[workspace_id] = task

    async def _read_gaps(self, workspace_id: str) -> None:
        """Publish what is missing, until nothing is. What cannot be read now the next poll asks for again."""
        query = AskFilter(workspace_id=workspace_id)
        try:
            while gap := self._hub.gap(workspace_id):
                after, last = gap
                async with self._reads:
                    read = partial(load_events, query=query, after=after, last=last)
                    found = await self._reader.read(read)
                await self._publish(found.events)
                if self._hub.gap(workspace_id) == gap:
                    break
        except AskdError as error:
            log.warning("events of other servers could not be read: %s", error.message)
        finally:
            del self._catching_up[workspace_id]

    async def _publish(self, events: Iterable[AskEvent]) -> None:
        pace = Pace()
        for event in events:
            self._hub.publish([event])
            await pace.pause()

    async def close(self) -> None:
        """Stop reading for watchers and waits."""
        tasks = [*self._catching_up.values(), *self._settling]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _chunks(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(ids), CHUNK):
        yield ids[start : start + CHUNK]
