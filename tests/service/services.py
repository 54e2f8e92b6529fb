"""The service on a real store, with everything that a test may look at or break."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from tests.conditions import eventually
from tests.store.commands import ANN, access
from tests.store.databases import START
from tests.store.histories import History
from tests.store.stages import Stage

from askd.domain.asks import Ask, AskEvent, AskFilter
from askd.domain.asks import pending as pending_event
from askd.domain.principals import Access, Caller, Principal
from askd.domain.sessions import Command
from askd.service.asks import Asks
from askd.service.authority import Authority
from askd.service.follower import Follower
from askd.service.hub import Batch, Hub, Recorded
from askd.service.keys import Keys
from askd.service.sessions import Sessions
from askd.service.streams import Streams
from askd.service.sweeper import Sweeper
from askd.store.database import Database
from askd.store.reader import Reader
from askd.store.writer import Writer

DAY = 24 * 3600 * 1_000_000

#: As long as no test waits for it.
HEARTBEAT = 3600.0


class Clock:
    """UTC microseconds, and seconds of a monotonic clock, that go on when a test says so."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return (self.now - START) / 1e6

    def advance(self, seconds: float) -> None:
        self.now += int(seconds * 1e6)


def encode(event: AskEvent) -> bytes:
    """An event as something that shows all of it."""
    return repr(event).encode()


class Service:
    """What a server consists of, but for gRPC."""

    def __init__(self, database: Database, heartbeat: float = HEARTBEAT) -> None:
        self.stage = Stage(database)
        self.clock = Clock()
        self.history = History()
        self.hub = Hub(encode)
        self.streams = Streams()
        self.writer = Writer(self.stage, self.clock, self._publish)
        self.reader = Reader(self.stage)
        self.asks = Asks(self.writer, self.reader, self.hub, self.streams, heartbeat)
        self.sweeper = Sweeper(self.stage, self.writer, self.reader, self.hub, self.clock, DAY)
        self.sessions = Sessions(self.writer, self.reader, self.sweeper)
        self.authority = Authority(self.reader, self.streams, self.clock, self.clock.monotonic)
        self.keys = Keys(self.stage, self.authority, self.clock)
        self.follower = Follower(self.reader, self.hub)
        self.clients: list[asyncio.Task[Any]] = []

    async def poll(self) -> None:
        """Do at once what the follower does again and again."""
        await self.follower.run_once()

    def _publish(self, events: Sequence[AskEvent]) -> None:
        for event in events:  # but those of a retry, and those that follow what a test did behind the service's back
            if event.revision == self.history.revision(event.ask.workspace_id) + 1:
                self.history.take([event])
        self.hub.publish(events)

    async def do(self, *commands: Command) -> list[Ask]:
        """Have commands done, as callers of their own."""
        outcomes = await asyncio.gather(*map(self.writer.submit, commands))
        return [outcome.ask for outcome in outcomes if outcome.ask is not None]

    async def ask(self, command: Command) -> Ask:
        """Have one command done."""
        return (await self.do(command))[0]

    async def try_all(self, commands: Sequence[Command]) -> None:
        """Have commands done, some of which may be refused."""
        await asyncio.gather(*map(self.writer.submit, commands), return_exceptions=True)

    async def asleep(self, count: int = 1) -> None:
        """Wait until so many watches and waits are open, or more, and every one sleeps."""
        streams = self.streams._open
        await eventually(lambda: len(streams) >= count and all(stream._future is not None for stream in streams))

    async def close(self) -> None:
        """Drain, once every client has left."""
        for client in self.clients:
            client.cancel()
        await asyncio.gather(*self.clients, return_exceptions=True)
        self.stage.failure = None
        self.streams.close()
        await self.follower.close()
        await self.sweeper.close()
        await self.writer.close()
        await self.reader.close()


@pytest.fixture
async def service(database: Database) -> AsyncIterator[Service]:
    """A service without asks."""
    running = Service(database)
    yield running
    await running.close()


class Watcher:
    """A client that watches until it is told to stop, and keeps what it was told."""

    def __init__(
        self, service: Service, query: AskFilter, after: int | None = None, caller: Access | None = None
    ) -> None:
        self.query = query
        self.after = after
        self.batches: list[Batch] = []
        self.revision = -1
        self._service = service
        self._access = caller or access(workspace=query.workspace_id)
        self._told = asyncio.Event()
        self._turn = asyncio.Event()
        self._turn.set()
        self.task = asyncio.create_task(self._watch())
        service.clients.append(self.task)

    async def _watch(self) -> None:
        async with aclosing(self._service.asks.watch(self._access, self.query, self.after)) as batches:
            async for batch in batches:
                self.batches.append(batch)
                if batch.revision is not None:
                    assert batch.revision >= self.revision, "the revision to resume after never goes back"
                    self.revision = batch.revision
                self._told.set()
                await self._turn.wait()

    def pause(self) -> None:
        """Take no more after the next response."""
        self._turn.clear()

    def go_on(self) -> None:
        """Take responses again."""
        self._turn.set()

    async def told(self) -> None:
        """Wait for the next response."""
        self._told.clear()
        waiting = asyncio.create_task(self._told.wait())
        done, _ = await asyncio.wait([waiting, self.task], return_when=asyncio.FIRST_COMPLETED, timeout=5)
        waiting.cancel()
        assert done, "told nothing"
        if self.task in done:
            self.task.result()

    async def synced(self) -> None:
        """Wait until the past is over."""
        while not any(batch.synced for batch in self.batches):
            await self.told()

    async def reached(self, revision: int) -> None:
        """Wait until everything up to a revision was told."""
        while self.revision < revision or not any(batch.synced for batch in self.batches):
            await self.told()

    async def stop(self) -> None:
        """Go away."""
        self.task.cancel()
        await asyncio.wait([self.task])

    @property
    def events(self) -> list[Recorded]:
        return [event for batch in self.batches for event in batch.events]

    @property
    def told_events(self) -> list[bytes]:
        return [event.encoded for event in self.events]

    @property
    def synced_at(self) -> int:
        """The revision at which the past was over, which is said once."""
        (revision,) = [batch.revision for batch in self.batches if batch.synced]
        assert revision is not None
        return revision

    def expected(self, history: History) -> list[bytes]:
        """What it should have been told up to now: the snapshot and every event after it, or every event."""
        if self.after is not None:
            return list(map(encode, history.events(self.query, self.after)))
        start = self.synced_at
        wanted = not self.query.statuses or "pending" in self.query.statuses
        asks = history.pending(self.query, start) if wanted else []
        return [encode(pending_event(ask)) for ask in asks] + list(map(encode, history.events(self.query, start)))


def caller(principal: Principal = ANN, *grants: object) -> Caller:
    """A caller with grants."""
    return Caller(principal=principal, grants=frozenset(grants))  # type: ignore[arg-type]
