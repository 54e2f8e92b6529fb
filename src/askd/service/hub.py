"""The hub: recent events of every watched workspace, and who sleeps until the next (DESIGN, third idea).

Everything here runs on one event loop and nothing in it waits, so no locks are needed.
"""

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice

from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus
from askd.domain.limits import PAGE
from askd.domain.values import value
from askd.service.streams import Stream

#: Bytes of events kept for all watched workspaces together; each has an equal share.
RING_BYTES = 64 * 1024 * 1024
#: Bytes of events in one batch, unless a single one has more. Leaves room for the fields beside them.
EVENT_BYTES = PAGE - 1024

#: Watchers who are a crowd, the part of them that sleeps again when it counts as served, and the seconds for each of
#: them after which it is not waited for.
CROWD = 50
MOST = 0.9
PATIENCE = 0.0005

Encode = Callable[[AskEvent], bytes]
Sleeper = asyncio.Future[int]


@value
class Recorded:
    """An event of a ring: converted once for all watchers, with what filters look at."""

    revision: int
    session_id: str
    turn_id: str
    status: AskStatus
    #: When it happened, in UTC microseconds.
    at: int
    encoded: bytes

    def passes(self, query: AskFilter) -> bool:
        """Whether a filter keeps the event."""
        return (
            query.session_id in ("", self.session_id)
            and (query.scope is None or self.session_id in query.scope)
            and query.turn_id in ("", self.turn_id)
            and (not query.statuses or self.status in query.statuses)
        )


def record(event: AskEvent, encode: Encode) -> Recorded:
    """Convert an event."""
    return Recorded(
        revision=event.revision,
        session_id=event.ask.session_id,
        turn_id=event.ask.turn_id or "",
        status=event.ask.status,
        at=event.ask.resolved_at or event.ask.created_at,
        encoded=encode(event),
    )


@dataclass(kw_only=True, slots=True)
class Batch:
    """What a watcher is given at once: events, and the revision to resume after having taken them."""

    events: Sequence[Recorded] = ()
    revision: int | None = None
    synced: bool = False
    #: The response that the server made of it; one batch may go to many watchers.
    encoded: bytes | None = None


class Ring:
    """The newest events of one workspace, without a gap, and the watchers that sleep on it.

    `behind` is called when the ring learns of committed events that it lacks, and leads to their being appended.
    Without it there is only one server, which publishes all that is committed.
    """

    def __init__(self, behind: Callable[[], None] | None = None) -> None:
        #: The revision of the newest event of the ring, -1 until there is one or begin() was called. The ring holds the
        #: events after `start` up to `head`.
        self.head = -1
        self.start = -1
        #: The newest revision heard of.
        self.heard = -1
        self.watchers = 0
        self._behind = behind
        self._events: deque[Recorded] = deque()
        self._bytes = 0
        #: Events that came before others that precede them, by their revisions.
        self._early: dict[int, Recorded] = {}
        self._early_bytes = 0
        self._sleepers: defaultdict[str, set[Sleeper]] = defaultdict(set)
        self._last = (-1, Batch())
        #: The first revisions of which sleepers are yet to be told, by session.
        self._due: dict[str, int] = {}
        #: What ends the time in which a crowd is left alone, when that began, and how many are yet to be served.
        self._serving: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._unserved = 0

    def begin(self, revision: int) -> None:
        """Say which revision is committed. Events that were published meanwhile know better."""
        if self.head < 0:
            self.head = self.start = revision
        self.hear(revision)

    def hear(self, revision: int) -> None:
        """Say that a revision is committed, wherever its event is."""
        self.heard = max(self.heard, revision)
        if self._behind is not None and 0 <= self.head < self.heard:
            self._behind()

    @property
    def gap(self) -> tuple[int, int] | None:
        """The revisions that the ring lacks next: those after the first number, up to the second."""
        if not 0 <= self.head < self.heard:
            return None
        return self.head, min(self._early, default=self.heard + 1) - 1

    def append(self, event: Recorded, limit: int) -> None:
        """Add an event, dropping the oldest beyond `limit` bytes, and wake those whom it concerns. One that comes early
        waits until the others before it have come.

        Where nobody brings those the ring begins anew, and watchers read the database for what it skipped: it is
        committed, since this event is.
        """
        if event.revision > self.head + 1:
            if self._behind is not None and self.head >= 0:
                self._hold(event, limit)
                return
            self._skip(event.revision - 1)
        following: Recorded | None = event
        while following is not None and following.revision == self.head + 1:
            self._add(following, limit)
            following = self._take_early(self.head + 1)
        self.hear(self.head)

    def _hold(self, event: Recorded, limit: int) -> None:
        if event.revision not in self._early and self._early_bytes + len(event.encoded) <= limit:
            self._early[event.revision] = event
            self._early_bytes += len(event.encoded)
        self.hear(event.revision)

    def _take_early(self, revision: int) -> Recorded | None:
        event = self._early.pop(revision, None)
        self._early_bytes -= len(event.encoded) if event else 0
        return event

    def _add(self, event: Recorded, limit: int) -> None:
        self.head = event.revision
        self._events.append(event)
        self._bytes += len(event.encoded)
        while self._bytes > limit and len(self._events) > 1:
            dropped = self._events.popleft()
            self._bytes -= len(dropped.encoded)
            self.start = dropped.revision
        for concerned in (event.session_id, ""):
            self._due.setdefault(concerned, event.revision)
        if self._serving is None:
            self._wake()

    def _skip(self, revision: int) -> None:
        for sleepers in self._sleepers.values():
            for sleeper in sleepers:
                self._rise(sleeper)
        self.head = revision
        self.forget()

    def after(self, query: AskFilter, revision: int) -> Batch | None:
        """The events after a revision that fit a response, or None where the ring no longer reaches back so far."""
        if revision < self.start:
            return None
        if self._last[0] == revision and self._last[1].revision == self.head:
            everything = self._last[1]
        else:
            everything = self._batch(revision)
            self._last = (revision, everything)
        if not (query.session_id or query.turn_id or query.statuses or query.scope is not None):
            return everything
        events = [event for event in everything.events if event.passes(query)]
        return Batch(events=events, revision=everything.revision)

    def _batch(self, revision: int) -> Batch:
        # Revisions are gapless, so the distance to the start is an index.
        events: list[Recorded] = []
        total = 0
        for event in islice(self._events, revision - self.start, None):
            total += len(event.encoded)
            if events and total > EVENT_BYTES:
                break
            events.append(event)
        return Batch(events=events, revision=events[-1].revision if events else revision)

    async def sleep(self, stream: Stream, query: AskFilter, seconds: float) -> int:
        """Sleep until an event of the filter's session, or until the time is over. Returns the revision up to which
        nothing happened that the filter keeps. Call with everything up to the head taken."""
        loop = asyncio.get_running_loop()
        sleeper: Sleeper = loop.create_future()
        stream.sleeps_on(sleeper)
        timer = loop.call_later(seconds, self._rise, sleeper)
        sleepers = self._sleepers[query.session_id]
        sleepers.add(sleeper)
        self._note_served()
        try:
            return await sleeper
        finally:
            timer.cancel()
            sleepers.discard(sleeper)
            if not sleepers:
                self._sleepers.pop(query.session_id, None)

    def forget_before(self, time: int) -> None:
        """Drop the events older than a time, in UTC microseconds."""
        while self._events and self._events[0].at < time:
            dropped = self._events.popleft()
            self._bytes -= len(dropped.encoded)
            self.start = dropped.revision
            self._last = (-1, Batch())

    def forget(self) -> None:
        """Drop the events kept; watchers that are behind read the database."""
        self._events.clear()
        self._early.clear()
        self._bytes = self._early_bytes = 0
        self.start = self.head
        self._last = (-1, Batch())

    def _wake(self) -> None:
        """Wake whom events concern that came since this was done last. A crowd is left alone with the next events while
        it is being served and, where some came, as long again: else each event of a burst would be sent to all of them
        before the next can come."""
        woken = 0
        for session_id, revision in self._due.items():
            # Whoever still sleeps when an event comes has been concerned by nothing before it.
            for sleeper in self._sleepers.get(session_id, ()):
                if not sleeper.done():
                    sleeper.set_result(revision - 1)
                    woken += 1
        self._due.clear()
        self._serving = None
        if woken >= CROWD:
            loop = asyncio.get_running_loop()
            self._unserved, self._since = int(woken * MOST), loop.time()
            self._serving = loop.call_later(woken * PATIENCE, self._wake)

    def _note_served(self) -> None:
        """Note that somebody sleeps again."""
        self._unserved -= 1
        if self._serving is not None and not self._unserved:
            self._serving.cancel()
            loop = asyncio.get_running_loop()
            self._serving = loop.call_later(loop.time() - self._since, self._wake) if self._due else None

    def _rise(self, sleeper: Sleeper) -> None:
        if not sleeper.done():
            sleeper.set_result(self.head)


class Hub:
    """Tells watchers and waits what was committed.

    `behind`, where there are several servers, is called with workspaces of which events are missing: gap() says which,
    and publish() takes them.
    """

    def __init__(self, encode: Encode) -> None:
        self.encode = encode
        self.behind: Callable[[str], None] | None = None
        self._rings: dict[str, Ring] = {}
        self._waits: defaultdict[str, set[asyncio.Future[Ask]]] = defaultdict(set)

    def publish(self, events: Sequence[AskEvent]) -> None:
        """Take committed events, each workspace's in revision order. One that is known already changes nothing."""
        for event in events:
            ring = self._rings.get(event.ask.workspace_id)
            if ring is not None and event.revision > ring.head:
                ring.append(record(event, self.encode), RING_BYTES // len(self._rings))
            self.settle(event.ask)

    def settle(self, ask: Ask) -> None:
        """Take an ask as it is committed: its waits are over once it is resolved."""
        if ask.status is AskStatus.PENDING:
            return
        for wait in self._waits.get(ask.id, ()):
            if not wait.done():
                wait.set_result(ask)

    def hear(self, workspace_id: str, revision: int) -> None:
        """Take a word that a revision is committed."""
        if ring := self._rings.get(workspace_id):
            ring.hear(revision)

    def gap(self, workspace_id: str) -> tuple[int, int] | None:
        """The revisions of which events are missing next: those after the first number, up to the second."""
        ring = self._rings.get(workspace_id)
        return ring.gap if ring else None

    @property
    def watched(self) -> list[str]:
        """The workspaces that somebody watches."""
        return list(self._rings)

    @property
    def waited(self) -> list[str]:
        """The asks that somebody waits for."""
        return list(self._waits)

    def is_waited(self, ask_id: str) -> bool:
        """Whether somebody waits for an ask."""
        return ask_id in self._waits

    @contextmanager
    def join(self, workspace_id: str) -> Iterator[Ring]:
        """The ring of a workspace, for as long as somebody watches it. A new one wants begin()."""
        ring = self._rings.get(workspace_id)
        if ring is None:
            behind = partial(self.behind, workspace_id) if self.behind else None
            ring = self._rings[workspace_id] = Ring(behind)
        ring.watchers += 1
        try:
            yield ring
        finally:
            ring.watchers -= 1
            if not ring.watchers:
                del self._rings[workspace_id]

    @contextmanager
    def wait(self, ask_id: str) -> Iterator[asyncio.Future[Ask]]:
        """A future that is set to the ask when it is resolved from now on."""
        future: asyncio.Future[Ask] = asyncio.get_running_loop().create_future()
        waits = self._waits[ask_id]
        waits.add(future)
        try:
            yield future
        finally:
            waits.discard(future)
            if not waits:
                self._waits.pop(ask_id, None)

    def forget(self, workspaces: Iterable[str]) -> None:
        """Drop the events of workspaces in which payloads were erased."""
        for workspace_id in workspaces:
            if ring := self._rings.get(workspace_id):
                ring.forget()

    def forget_before(self, time: int) -> None:
        """Drop what happened before a time, in UTC microseconds: its payload may have been erased by any server."""
        for ring in self._rings.values():
            ring.forget_before(time)
