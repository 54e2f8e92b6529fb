"""What clients were told while things went wrong, and whether all of it can be true at once.

A history knows nothing of servers and databases: whoever makes calls, over whatever connections to however many
servers, records what was acknowledged, who was told to have lost, and what each watcher saw. In the end `check` holds
it all to the log, which is every event of each workspace as the survivors tell it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from google.protobuf.timestamp_pb2 import Timestamp

from askd.v1 import ask_pb2
from askd.v1.ask_pb2 import AskEvent, AskState
from askd.v1.ask_service_pb2 import WatchAsksResponse

SNAPSHOT = ask_pb2.ASK_EVENT_TYPE_PENDING
ASKED = ask_pb2.ASK_EVENT_TYPE_ASKED
#: The status that each resolving event leaves its ask in.
STATUSES = {
    ask_pb2.ASK_EVENT_TYPE_ANSWERED: ask_pb2.ASK_STATUS_ANSWERED,
    ask_pb2.ASK_EVENT_TYPE_REJECTED: ask_pb2.ASK_STATUS_REJECTED,
    ask_pb2.ASK_EVENT_TYPE_CANCELLED: ask_pb2.ASK_STATUS_CANCELLED,
}
PENDING = ask_pb2.ASK_STATUS_PENDING

Log = Sequence[AskEvent]


class UntrueError(AssertionError):
    """Something that a client was told does not go with the rest."""


@dataclass(frozen=True, kw_only=True)
class Acknowledged:
    """A change that was acknowledged. `identity` is what makes a retry the same change: the request id, or the ask and
    the answer id. `begun` and `ended` are moments of the history's own clock; a retried change began with its first
    attempt."""

    identity: tuple[str, ...]
    begun: int
    ended: int
    ask: AskState

    @property
    def revision(self) -> int:
        """The revision that the change made."""
        return self.ask.created_revision if self.identity[0] == "ask" else self.ask.resolved_revision


@dataclass(frozen=True, kw_only=True)
class Lost:
    """A resolution that came too late, and what its caller was told of the winner."""

    workspace_id: str
    ask_id: str
    metadata: Mapping[str, str]


@dataclass(kw_only=True)
class View:
    """What one watcher saw, over however many connections. The next one begins after `resume`, or with a snapshot."""

    workspace_id: str
    session_id: str = ""
    statuses: frozenset[int] = frozenset()
    #: Where it all began: the snapshot's revision, or the one that was asked for.
    start: int | None = None
    resume: int | None = None
    snapshot: list[AskEvent] | None = None
    events: list[AskEvent] = field(default_factory=list)
    _partial: list[AskEvent] = field(default_factory=list)

    def connect(self) -> None:
        """Say that a connection was made anew. A snapshot that was not whole begins again."""
        self._partial = []

    def take(self, response: WatchAsksResponse) -> None:
        """Add a response of the connection."""
        if self.resume is None:
            self._partial += response.events
            if response.HasField("revision"):
                self.snapshot = self._partial
                self.start = self.resume = response.revision
            return
        self.events += response.events
        self.resume = response.revision

    def keeps(self, event: AskEvent) -> bool:
        """Whether the watcher's filter keeps an event."""
        return self.session_id in ("", event.ask.session_id) and (
            not self.statuses or event.ask.status in self.statuses
        )

    def pending(self) -> list[AskState]:
        """What is pending by all that the watcher saw, in order of creation."""
        asks = {event.ask.id: event.ask for event in self.snapshot or ()}
        for event in self.events:
            if event.type == ASKED:
                asks[event.ask.id] = event.ask
            else:
                asks.pop(event.ask.id, None)
        return sorted(asks.values(), key=lambda ask: ask.created_revision)


class History:
    """Everything that clients were told."""

    def __init__(self) -> None:
        self._clock = count()
        self.acknowledged: list[Acknowledged] = []
        self.lost: list[Lost] = []
        self.views: list[View] = []

    def begin(self) -> int:
        """The moment at which a change is attempted for the first time."""
        return next(self._clock)

    def acknowledge(self, identity: tuple[str, ...], begun: int, ask: AskState) -> None:
        """Record that a change was acknowledged."""
        self.acknowledged.append(Acknowledged(identity=identity, begun=begun, ended=next(self._clock), ask=ask))

    def lose(self, workspace_id: str, ask_id: str, metadata: Mapping[str, str]) -> None:
        """Record that a resolution was told that another came first."""
        self.lost.append(Lost(workspace_id=workspace_id, ask_id=ask_id, metadata=metadata))

    def view(self, view: View) -> View:
        """Record what a watcher sees from now on."""
        self.views.append(view)
        return view

    def check(self, logs: Mapping[str, Log], asks: Mapping[str, Sequence[AskState]], *, complete: bool = True) -> None:
        """Raise UntrueError where anything recorded contradicts the logs, or the logs themselves. `asks` is each
        workspace's list in the end. With `complete` every view must have reached the end of its log."""
        for workspace_id, log in logs.items():
            check_log(log)
            check_asks(log, asks[workspace_id])
        for change in self.acknowledged:
            check_acknowledged(change, logs[change.ask.workspace_id])
        check_identities(self.acknowledged)
        check_order(self.acknowledged)
        for lost in self.lost:
            check_lost(lost, logs[lost.workspace_id])
        for view in self.views:
            check_view(view, logs[view.workspace_id], complete=complete)


def check_log(log: Log) -> None:
    """Revisions without a gap; each ask created once and resolved at most once, after that."""
    revisions = [event.revision for event in log]
    _hold(revisions == list(range(1, len(log) + 1)), f"the revisions are not gapless: {_odd(revisions)}")
    created: dict[str, AskEvent] = {}
    resolved: set[str] = set()
    for event in log:
        ask = event.ask
        if event.type == ASKED:
            _hold(ask.id not in created, f"{ask.id} was created twice")
            _hold(ask.status == PENDING, f"{ask.id} was not pending when it was created")
            _hold(ask.created_revision == event.revision, f"{ask.id} was created at another revision than its event's")
            created[ask.id] = event
            continue
        _hold(ask.id in created, f"{ask.id} was resolved before it was created")
        _hold(ask.id not in resolved, f"{ask.id} was resolved twice")
        _hold(STATUSES.get(event.type) == ask.status, f"{ask.id} is in another state than its event says")
        _hold(ask.resolved_revision == event.revision, f"{ask.id} was resolved at another revision than its event's")
        _hold(_asked(ask) == _asked(created[ask.id].ask), f"{ask.id} is not what was asked")
        resolved.add(ask.id)


def _asked(ask: AskState) -> AskState:
    """The ask without its resolution."""
    bare = AskState()
    bare.CopyFrom(ask)
    for name in ("status", "answers", "answered_at", "rejected_at", "cancelled_at", "cancel_reason", "reject_reason",
                 "resolved_revision", "resolved_by_user_id", "resolved_by_api_key_id"):  # fmt: skip
        bare.ClearField(name)
    return bare


def check_asks(log: Log, asks: Sequence[AskState]) -> None:
    """The list is what the log says became of each ask, in order of creation."""
    latest = {event.ask.id: event.ask for event in log}
    listed = [ask.id for ask in asks]
    _hold(listed == [event.ask.id for event in log if event.type == ASKED], "the list is not what the log created")
    for ask in asks:
        _hold(ask == latest[ask.id], f"{ask.id} is not listed as its last event says")


def check_acknowledged(change: Acknowledged, log: Log) -> None:
    """An acknowledged change is in the log, at its revision, as it was acknowledged."""
    said = f"{change.identity} was acknowledged"
    _hold(0 < change.revision <= len(log), f"{said} and is lost")
    event = log[change.revision - 1]
    _hold(event.ask.id == change.ask.id, f"{said} and is lost: its revision is another ask's")
    if change.identity[0] == "ask":
        _hold(event.type == ASKED, f"{said} and its revision created nothing")
        _hold(_asked(change.ask) == _asked(event.ask), f"{said} and stored otherwise")
    else:
        _hold(STATUSES.get(event.type) == change.ask.status, f"{said} and something else was done")
        _hold(_without_questions(change.ask) == _without_questions(event.ask), f"{said} and stored otherwise")


def _without_questions(ask: AskState) -> AskState:
    bare = AskState()
    bare.CopyFrom(ask)
    bare.ClearField("questions")
    return bare


def check_identities(changes: Iterable[Acknowledged]) -> None:
    """A change that was acknowledged several times was one change, and each change had one identity."""
    first: dict[tuple[str, ...], Acknowledged] = {}
    made: dict[tuple[str, int], tuple[str, ...]] = {}
    for change in changes:
        same = first.setdefault(change.identity, change)
        _hold(change.ask.id == same.ask.id, f"{change.identity} is two asks")
        if change.identity[0] == "answer":
            _hold(change.ask == same.ask, f"{change.identity} has two receipts")
        other = made.setdefault((change.ask.workspace_id, change.revision), change.identity)
        _hold(other == change.identity, f"{change.identity} and {other} were both told that they made one change")


def check_order(changes: Sequence[Acknowledged]) -> None:
    """What was acknowledged before something else began has the smaller revision."""
    by_workspace: dict[str, dict[tuple[str, ...], Acknowledged]] = {}
    for change in changes:
        # A change that was asked for again began with the first attempt, and had ended with the first word of it.
        by_workspace.setdefault(change.ask.workspace_id, {}).setdefault(change.identity, change)
    for mine in by_workspace.values():
        ended = sorted(mine.values(), key=lambda change: change.ended)
        newest, at = 0, 0
        for change in sorted(mine.values(), key=lambda change: change.begun):
            while ended[at].ended < change.begun:
                newest = max(newest, ended[at].revision)
                at += 1
            _hold(change.revision > newest, f"{change.identity} began after revision {newest} and made an older one")


def check_lost(lost: Lost, log: Log) -> None:
    """Who lost was told of the winner that the log knows."""
    winners = [event for event in log if event.ask.id == lost.ask_id and event.type != ASKED]
    _hold(len(winners) == 1, f"{lost.ask_id} was told to be resolved and has {len(winners)} resolutions")
    ask = winners[0].ask
    status = ask_pb2.AskStatus.Name(ask.status).removeprefix("ASK_STATUS_").lower()
    expected = {
        "status": status,
        "resolved_revision": str(ask.resolved_revision),
        "resolved_by": _resolver(ask),
        "resolved_at": str(getattr(ask, f"{status}_at").ToMicroseconds()),
    }
    said = dict(lost.metadata)
    time = Timestamp()
    time.FromJsonString(said["resolved_at"])
    said["resolved_at"] = str(time.ToMicroseconds())
    _hold(said == expected, f"{lost.ask_id} was lost to {expected}, and the loser was told {said}")


def _resolver(ask: AskState) -> str:
    match ask.WhichOneof("resolved_by"):
        case "resolved_by_user_id":
            return f"user:{ask.resolved_by_user_id}"
        case "resolved_by_api_key_id":
            return f"key:{ask.resolved_by_api_key_id}"
    return ""


def check_view(view: View, log: Log, *, complete: bool) -> None:
    """A watcher saw what was pending where it began, and then every event that its filter keeps, once and in order."""
    if view.resume is None or view.start is None:
        _hold(not complete, "a watcher never saw a whole snapshot")
        return
    _hold(not complete or view.resume == len(log), f"a watcher stopped at revision {view.resume} of {len(log)}")
    if view.snapshot is not None:
        expected = [event for event in pending_at(log, view.start) if view.keeps(event)]
        _hold(view.snapshot == expected, f"a snapshot is not what was pending at revision {view.start}")
    seen = [event.revision for event in view.events]
    kept = [event for event in log[view.start : view.resume] if view.keeps(event)]
    _hold(
        seen == [event.revision for event in kept],
        f"a watcher that began at {view.start} and came to {view.resume} missed, repeated or reordered: "
        f"{_odd(seen, [event.revision for event in kept])}",
    )
    _hold(view.events == kept, "a watcher saw an event otherwise than it is")


def pending_at(log: Log, revision: int) -> Iterator[AskEvent]:
    """The snapshot of a revision."""
    resolved = {event.ask.id for event in log[:revision] if event.type != ASKED}
    for event in log[:revision]:
        if event.type == ASKED and event.ask.id not in resolved:
            yield AskEvent(type=SNAPSHOT, revision=event.revision, ask=event.ask)


def _odd(seen: Sequence[int], expected: Sequence[int] | None = None) -> str:
    """The first revisions that do not follow, or that differ."""
    if expected is None:
        return str([pair for pair in pairwise((0, *seen)) if pair[1] != pair[0] + 1][:5])
    twice = [revision for revision, follower in pairwise(seen) if follower <= revision]
    return f"missing {sorted(set(expected) - set(seen))[:5]}, not expected {sorted(set(seen) - set(expected))[:5]}, " \
        f"out of order after {twice[:5]}"  # fmt: skip


def _hold(truth: bool, otherwise: str) -> None:
    if not truth:
        raise UntrueError(otherwise)
