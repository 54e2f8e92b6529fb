"""What happened to asks, kept in plain lists: a model that queries and watches are compared with."""

import random
from collections import defaultdict
from collections.abc import Iterable, Sequence

from tests.store.commands import ANN, BOB, access, answer, choice_question, choosing, create, reject, withdraw
from tests.store.databases import Store

from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus, EventType, ToolCall
from askd.domain.sessions import Command


def dice(seed: int) -> random.Random:
    """Chance that is the same in every run."""
    return random.Random(seed)  # noqa: S311


class History:
    """The events of every workspace, in the order of their revisions."""

    def __init__(self) -> None:
        self._events: defaultdict[str, list[AskEvent]] = defaultdict(list)

    def take(self, events: Iterable[AskEvent]) -> None:
        """Take more events, which must be each workspace's next."""
        for event in events:
            known = self._events[event.ask.workspace_id]
            assert event.revision == len(known) + 1, "revisions are gapless and in commit order"
            known.append(event)

    def revision(self, workspace: str = "w") -> int:
        return len(self._events[workspace])

    def asks(self, workspace: str = "w", at: int | None = None) -> list[Ask]:
        """The asks as they were at a revision, in the order of their creation."""
        found: dict[str, Ask] = {}
        for event in self._events[workspace][:at]:
            found[event.ask.id] = event.ask
        return list(found.values())

    def pending(self, query: AskFilter, at: int | None = None) -> list[Ask]:
        """The asks of a filter that were pending at a revision."""
        asks = self.asks(query.workspace_id, at)
        return [ask for ask in asks if ask.status is AskStatus.PENDING and keeps(query, ask)]

    def page(self, query: AskFilter, after: int, limit: int) -> tuple[list[Ask], bool]:
        """A page of a list as of now, and whether there is more."""
        asks = [ask for ask in self.asks(query.workspace_id) if ask.created_revision > after and keeps(query, ask)]
        return asks[:limit], len(asks) > limit

    def events(self, query: AskFilter, after: int = 0) -> list[AskEvent]:
        """The events of a filter after a revision."""
        return [event for event in self._events[query.workspace_id][after:] if keeps(query, event.ask)]


def keeps(query: AskFilter, ask: Ask) -> bool:
    """Whether a filter keeps an ask as it is."""
    if query.session_id and ask.session_id != query.session_id:
        return False
    if query.scope is not None and ask.session_id not in query.scope:
        return False
    if query.turn_id and ask.turn_id != query.turn_id:
        return False
    return not query.statuses or ask.status in query.statuses


def subsets(statuses: Sequence[AskStatus] = tuple(AskStatus)) -> list[frozenset[AskStatus]]:
    """Every set of statuses."""
    return [
        frozenset(status for bit, status in enumerate(statuses) if number >> bit & 1)
        for number in range(2 ** len(statuses))
    ]


def places(workspace: str = "w") -> list[AskFilter]:
    """Every way in which a filter may name a session and a turn, of those that a workload uses and of others."""
    named = [("", ""), ("s", ""), ("s", "t"), ("s", "u"), ("r", "t"), ("nobody's", ""), ("s", "nobody's")]
    return [AskFilter(workspace_id=workspace, session_id=session, turn_id=turn) for session, turn in named]


class Workload:
    """Commands as callers might give them, some of which are refused, in a few sessions of two workspaces."""

    def __init__(self, seed: int) -> None:
        self.dice = dice(seed)
        self.history = History()

    async def run(self, store: Store, batches: int) -> None:
        """Commit batches of commands."""
        for _ in range(batches):
            self.history.take((await store.apply(*self.batch())).events)

    def batch(self) -> list[Command]:
        return [self.command() for _ in range(self.dice.randint(1, 6))]

    def command(self) -> Command:
        workspace = self.dice.choice(["w", "w", "v"])
        asks = self.history.asks(workspace)[-8:]
        if not asks or self.dice.random() < 0.55:
            return self._create(workspace)
        return self._resolve(self.dice.choice(asks))

    def _create(self, workspace: str) -> Command:
        session, turn = self.dice.choice([("s", "t"), ("s", "u"), ("s", None), ("r", "t"), ("r", None)])
        questions = [choice_question(multiple=True, custom=True)] if self.dice.random() < 0.5 else []
        tool = ToolCall(message_id="m", call_id="c") if self.dice.random() < 0.3 else None
        request_id = f"request {self.dice.randint(1, 10**9)}" if self.dice.random() < 0.3 else None
        return create(*questions, workspace=workspace, session=session, turn=turn, tool=tool, request_id=request_id)

    def _resolve(self, ask: Ask) -> Command:
        by = access(workspace=ask.workspace_id, by=self.dice.choice([ANN, BOB]))
        match self.dice.randrange(5):
            case 0:
                return reject(ask, self.dice.choice([None, "no time"]), by=by)
            case 1:
                return withdraw(ask, by=by)
        submission = "yes" if not ask.encoded_questions.count("options") else choosing("a", custom="or else")
        return answer(ask, submission, answer_id=f"answer {self.dice.randint(1, 10**9)}", by=by)


def ids(asks: Iterable[Ask]) -> list[str]:
    return [ask.id for ask in asks]


def kinds(events: Iterable[AskEvent]) -> list[EventType]:
    return [event.type for event in events]
