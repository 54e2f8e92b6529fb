"""Asking, answering, reading and watching (CONTRACT sections 2 to 5)."""

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TypeVar

from sqlalchemy import Connection

from askd.domain.asks import (
    Ask,
    AskDraft,
    AskFilter,
    AskStatus,
    CreateAsk,
    Resolution,
    ResolveAsk,
    visible,
)
from askd.domain.asks import pending as pending_event
from askd.domain.errors import AskdError, invalid
from askd.domain.principals import Access
from askd.domain.sessions import Command
from askd.domain.values import value
from askd.service.hub import EVENT_BYTES, Batch, Hub, Recorded, Ring, record
from askd.service.ids import new_ulid
from askd.service.streams import Stream, Streams
from askd.store.batch import Outcome
from askd.store.pauses import unhurried
from askd.store.queries import Page, load_events, load_revision, load_snapshot
from askd.store.reader import Reader
from askd.store.writer import Writer

T = TypeVar("T")

#: Asks of a snapshot that are read at once: bounds for how long a thread competes with the event loop.
SNAPSHOT_ITEMS = 50


@value
class AskReference:
    """Names an ask. Session and turn, where not empty, must be the ask's."""

    ask_id: str
    session_id: str = ""
    turn_id: str = ""


class Asks:
    """The use cases of AskService. Every method raises AskdError."""

    def __init__(self, writer: Writer, reader: Reader, hub: Hub, streams: Streams, heartbeat: float) -> None:
        self._writer = writer
        self._reader = reader
        self._hub = hub
        self._streams = streams
        self._heartbeat = heartbeat

    def create(
        self,
        access: Access,
        draft: Callable[[], AskDraft | AskdError],
        request_id: str | None,
        finish: Callable[[Ask], T],
    ) -> Awaitable[T]:
        """Store an ask, or find the one that the request id stored before.

        `draft` is called when the ask's turn comes, and awaiting returns what `finish` makes of the ask; Lane.take()
        says why.
        """

        def make() -> Command:
            drafted = draft()
            if isinstance(drafted, AskdError) and request_id is None:
                raise drafted
            return CreateAsk(access=access, ask_id=f"que_{new_ulid()}", request_id=request_id, draft=drafted)

        return self._writer.enqueue(access.workspace_id, make, lambda outcome: finish(_ask(outcome)))

    def resolve(
        self,
        access: Access,
        reference: AskReference,
        resolution: Callable[[], Resolution],
        finish: Callable[[Ask], T],
    ) -> Awaitable[T]:
        """Answer, reject or cancel an ask, or return what the answer id answered before."""

        def make() -> Command:
            return ResolveAsk(
                access=access,
                id=new_ulid(),
                ask_id=reference.ask_id,
                session_id=reference.session_id,
                turn_id=reference.turn_id,
                resolution=resolution(),
            )

        return self._writer.enqueue(access.workspace_id, make, lambda outcome: finish(_ask(outcome)))

    async def get(self, access: Access, reference: AskReference) -> Ask:
        """One ask."""
        found = await self._reader.get(reference.ask_id)
        return visible(found, reference.ask_id, access, reference.session_id, reference.turn_id)

    async def wait(self, access: Access, reference: AskReference, seconds: float | None) -> Ask:
        """One ask, as soon as it is resolved or the time is over. None waits without end."""
        with self._streams.open(access) as stream, self._hub.wait(reference.ask_id) as resolution:
            ask = await self.get(access, reference)
            if ask.status is not AskStatus.PENDING:
                return ask
            stream.sleeps_on(resolution)
            try:
                async with asyncio.timeout(seconds):  # wait_for() of Python 3.11 swallows a cancellation
                    return await resolution
            except TimeoutError:
                return await self.get(access, reference)

    async def page(self, access: Access, query: AskFilter, after: int, limit: int) -> Page:
        """Asks of a filter created after a revision, in order of created_revision."""
        scoped = _scoped(access, query)
        return await self._reader.page(scoped, after, limit)

    async def watch(self, access: Access, query: AskFilter, after: int | None) -> AsyncGenerator[Batch]:
        """A snapshot of what is pending, or every event after a revision; then every event as it comes, for ever."""
        query = _scoped(access, query)
        with self._streams.open(access) as stream, self._hub.join(query.workspace_id) as ring:
            start = await self._begin(query, ring, after)
            if after is None:
                async with aclosing(self._snapshot(stream, query, start)) as batches:
                    async for batch in batches:
                        yield batch
                yield Batch(revision=start, synced=True)
            revision = start if after is None else after
            past = None if after is None else max(start, ring.head)
            async with aclosing(self._follow(stream, query, ring, revision, past)) as batches:
                async for batch in batches:
                    yield batch

    async def _begin(self, query: AskFilter, ring: Ring, after: int | None) -> int:
        committed = await self._reader.read(lambda connection: load_revision(connection, query.workspace_id))
        ring.begin(committed)
        if after is not None and not 0 <= after <= max(committed, ring.head):
            raise invalid("after_revision", f"must be between 0 and the current revision {committed}")
        return committed

    async def _snapshot(self, stream: Stream, query: AskFilter, revision: int) -> AsyncGenerator[Batch]:
        after, more, clock = 0, True, asyncio.get_running_loop().time
        while more:
            begun = clock()
            page, events = await self._reader.read(partial(self._read_snapshot, query, revision, after))
            rest = clock() - begun
            for fitting in _responses(events):
                yield Batch(events=fitting)
            stream.check()
            more = page.more
            after = page.asks[-1].created_revision if more else after
            if more:  # whoever joins late leaves half of the server to others
                await asyncio.sleep(rest)

    def _read_snapshot(
        self, query: AskFilter, revision: int, after: int, connection: Connection
    ) -> tuple[Page, list[Recorded]]:
        # Converted here, in the reader's thread or with pauses, so that a long snapshot does not keep the loop busy.
        page = load_snapshot(connection, query, revision, after, SNAPSHOT_ITEMS)
        return page, [record(pending_event(ask), self._hub.encode) for ask in unhurried(connection, page.asks)]

    async def _follow(
        self, stream: Stream, query: AskFilter, ring: Ring, revision: int, past: int | None
    ) -> AsyncGenerator[Batch]:
        """The plan: take what the ring or the database has, or sleep; say once that the past is over, which ends at the
        revision `past`; beat where nothing was sent for a while."""
        clock = asyncio.get_running_loop().time
        beat = clock() + self._pause()
        while True:
            stream.check()
            if revision < max(ring.head, past or 0):
                for batch in await self._next(query, ring, revision):
                    revision = batch.revision or revision
                    if batch.events:
                        yield batch
                        beat = clock() + self._pause()
            elif past is None:
                # What was read from the database may be newer than the ring's events.
                revision = max(revision, await ring.sleep(stream, query, beat - clock()))
            if past is not None and revision >= past:
                past = None
                yield Batch(revision=revision, synced=True)
                beat = clock() + self._pause()
            if clock() >= beat:
                yield Batch(revision=revision)
                beat = clock() + self._pause()

    async def _next(self, query: AskFilter, ring: Ring, revision: int) -> Sequence[Batch]:
        if revision < ring.head and (batch := ring.after(query, revision)):
            return [batch]
        return await self._reader.read(partial(self._read_events, query, revision))

    def _read_events(self, query: AskFilter, revision: int, connection: Connection) -> list[Batch]:
        found = load_events(connection, query, revision)
        events = [record(event, self._hub.encode) for event in unhurried(connection, found.events)]
        batches = [Batch(events=fitting, revision=fitting[-1].revision) for fitting in _responses(events)]
        return [*batches, Batch(revision=found.revision)]

    def _pause(self) -> float:
        return self._heartbeat * random.uniform(0.8, 1.0)  # noqa: S311  # so that watchers do not beat together


def _ask(outcome: Outcome) -> Ask:
    assert outcome.ask is not None, "commands about an ask tell what became of it"  # noqa: S101
    return outcome.ask


def _scoped(access: Access, query: AskFilter) -> AskFilter:
    """The filter, narrowed to the sessions that the caller sees."""
    if access.sessions is None:
        return query
    if not query.session_id and len(access.sessions) == 1:
        (query_session,) = access.sessions
        return replace(query, session_id=query_session, scope=access.sessions)
    return replace(query, scope=access.sessions)


def _responses(events: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    """The events in groups that fit a response each."""
    group: list[Recorded] = []
    total = 0
    for event in events:
        total += len(event.encoded)
        if group and total > EVENT_BYTES:
            yield group
            group, total = [], len(event.encoded)
        group.append(event)
    if group:
        yield group
