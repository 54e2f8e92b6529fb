"""The checker finds each kind of untruth. Without this, chaos tests that pass would prove nothing."""

from collections.abc import Callable

import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from tests.chaos.history import ASKED, PENDING, SNAPSHOT, History, UntrueError, View, pending_at
from tests.questions import text_question

from askd.v1 import ask_pb2
from askd.v1.ask_pb2 import AskEvent, AskState
from askd.v1.ask_service_pb2 import WatchAsksResponse


def asked(ask_id: str, revision: int) -> AskState:
    return AskState(
        id=ask_id, workspace_id="w", session_id="s", status=PENDING, created_revision=revision,
        questions=[text_question()],
    )  # fmt: skip


def answered(ask: AskState, revision: int, by: str = "k") -> AskState:
    result = AskState()
    result.CopyFrom(ask)
    result.MergeFrom(
        AskState(
            status=ask_pb2.ASK_STATUS_ANSWERED, answers=[ask_pb2.Answer(text="x")],
            answered_at=Timestamp(seconds=revision), resolved_revision=revision, resolved_by_api_key_id=by,
        )
    )  # fmt: skip
    return result


def event(ask: AskState) -> AskEvent:
    if ask.status == PENDING:
        return AskEvent(type=ASKED, revision=ask.created_revision, ask=ask)
    return AskEvent(type=ask_pb2.ASK_EVENT_TYPE_ANSWERED, revision=ask.resolved_revision, ask=ask)


A, B, C = asked("a", 1), asked("b", 2), asked("c", 4)
DONE = answered(A, 3)
LOSER = {"status": "answered", "resolved_at": "1970-01-01T00:00:03Z", "resolved_revision": "3", "resolved_by": "key:k"}


class Told:
    """A history that is true, with its log and list, to be falsified."""

    def __init__(self) -> None:
        self.history = History()
        for ask in (A, B):
            self.history.acknowledge(("ask", f"r{ask.id}"), self.history.begin(), ask)
        self.history.acknowledge(("answer", "a", "a1"), self.history.begin(), DONE)
        self.history.acknowledge(("ask", "rc"), self.history.begin(), C)
        self.history.lose("w", "a", LOSER)
        self.log = [event(ask) for ask in (A, B, DONE, C)]
        self.asks = [DONE, B, C]
        self.early = self.history.view(View(workspace_id="w"))
        self.early.take(WatchAsksResponse(events=list(pending_at(self.log, 2))))
        self.early.connect()  # its first snapshot was not whole
        self.early.take(WatchAsksResponse(events=list(pending_at(self.log, 2)), revision=2))
        self.early.take(WatchAsksResponse(events=self.log[2:], revision=4))
        self.late = self.history.view(View(workspace_id="w", start=1, resume=1, statuses=frozenset({PENDING})))
        self.late.take(WatchAsksResponse(events=[self.log[1]], revision=2))
        self.late.take(WatchAsksResponse(events=[self.log[3]], revision=4))

    def check(self) -> None:
        self.history.check({"w": self.log}, {"w": self.asks})


def test_a_true_history_is_accepted() -> None:
    told = Told()
    told.check()
    assert told.early.pending() == [B, C]


def lose_the_last(told: Told) -> None:
    told.log.pop()
    told.asks.pop()
    told.history.views.clear()


def leave_a_gap(told: Told) -> None:
    del told.log[1]


def resolve_twice(told: Told) -> None:
    told.log.append(event(answered(A, 5)))


def create_twice(told: Told) -> None:
    told.log.append(event(asked("a", 5)))


def resolve_too_early(told: Told) -> None:
    told.log[:] = [event(answered(A, 1)), *told.log[1:]]


def list_otherwise(told: Told) -> None:
    told.asks[0] = A


def list_less(told: Told) -> None:
    told.asks.pop()


def store_otherwise(told: Told) -> None:
    other = AskState()
    other.CopyFrom(A)
    other.session_id = "t"
    told.history.acknowledge(("ask", "ra"), 0, other)


def answer_twice(told: Told) -> None:
    told.history.acknowledge(("answer", "a", "a2"), told.history.begin(), DONE)


def give_two_receipts(told: Told) -> None:
    told.history.acknowledge(("answer", "a", "a1"), told.history.begin(), answered(A, 3, by="other"))


def make_two_asks_of_one_request(told: Told) -> None:
    told.history.acknowledge(("ask", "ra"), told.history.begin(), B)


def go_back_in_time(told: Told) -> None:
    backwards = told.history.acknowledged[::-1]
    told.history.acknowledged.clear()
    for change in backwards:
        told.history.acknowledge(change.identity, told.history.begin(), change.ask)


def name_another_winner(told: Told) -> None:
    told.history.lose("w", "a", LOSER | {"resolved_by": "key:me"})


def lose_to_nobody(told: Told) -> None:
    told.history.lose("w", "b", LOSER)


def miss(told: Told) -> None:
    del told.early.events[0]


def repeat(told: Told) -> None:
    told.early.events.append(told.early.events[-1])


def reorder(told: Told) -> None:
    told.early.events.reverse()


def see_otherwise(told: Told) -> None:
    told.early.events[0] = AskEvent(type=told.early.events[0].type, revision=3, ask=A)


def show_too_much(told: Told) -> None:
    assert told.early.snapshot is not None
    told.early.snapshot.append(AskEvent(type=SNAPSHOT, revision=4, ask=C))


def show_what_the_filter_drops(told: Told) -> None:
    told.late.events.insert(1, told.log[2])


def stop_early(told: Told) -> None:
    told.late.events.pop()
    told.late.resume = 2


def never_begin(told: Told) -> None:
    told.history.view(View(workspace_id="w"))


UNTRUTHS: list[tuple[Callable[[Told], None], str]] = [
    (lose_the_last, "is lost"),
    (leave_a_gap, "not gapless"),
    (resolve_twice, "resolved twice"),
    (create_twice, "created twice"),
    (resolve_too_early, "before it was created"),
    (list_otherwise, "not listed as"),
    (list_less, "not what the log created"),
    (store_otherwise, "stored otherwise"),
    (answer_twice, "both told"),
    (give_two_receipts, "stored otherwise"),
    (make_two_asks_of_one_request, "two asks"),
    (go_back_in_time, "made an older one"),
    (name_another_winner, "the loser was told"),
    (lose_to_nobody, "0 resolutions"),
    (miss, "missing \\[3\\]"),
    (repeat, "out of order after \\[4\\]"),
    (reorder, "out of order"),
    (see_otherwise, "otherwise than it is"),
    (show_too_much, "not what was pending"),
    (show_what_the_filter_drops, "not expected \\[3\\]"),
    (stop_early, "stopped at revision 2"),
    (never_begin, "never saw"),
]


@pytest.mark.parametrize(("falsify", "found"), UNTRUTHS)
def test_an_untruth_is_found(falsify: Callable[[Told], None], found: str) -> None:
    told = Told()
    falsify(told)
    with pytest.raises(UntrueError, match=found):
        told.check()
