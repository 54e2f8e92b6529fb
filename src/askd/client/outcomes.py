"""What becomes of an ask that a program waits for: an answer, or a typed error (CONTRACT section 4)."""

from dataclasses import dataclass
from typing import Any, Literal, NoReturn

from askd.client.errors import AskCancelledError, AskExpiredError, AskRejectedError, UnansweredError
from askd.v1 import ask_pb2 as pb
from askd.wire import json


@dataclass(frozen=True, kw_only=True, slots=True)
class Answerer:
    """The verified principal that answered, never what a caller claims."""

    kind: Literal["user", "api_key"]
    id: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """An ask that was answered.

    `answers` are JSON data, one for each question in order: a string for a text question; for a choice question
    `{"selected": [{"id", "value"}], "custom"?, "notes"?}` (CONTRACT section 3). `answered_by` gave them; `ask` is the
    whole ask.
    """

    answers: tuple[Any, ...]
    answered_by: Answerer
    ask: pb.AskState

    @property
    def answer(self) -> Any:
        """The answer to the only question. ValueError where several were asked together."""
        if len(self.answers) != 1:
            raise ValueError(f"{len(self.answers)} questions were asked together: see answers")
        return self.answers[0]


def answered(ask: pb.AskState) -> Answered:
    """What a resolved ask was answered with. Raises UnansweredError or what it is more precisely."""
    if ask.status != pb.ASK_STATUS_ANSWERED:
        _raise_unanswered(ask)
    if ask.payload_expired:
        raise UnansweredError("payload_expired", "the ask was answered, but its answers have been erased", ask)
    by: Answerer
    if ask.resolved_by_user_id:
        by = Answerer(kind="user", id=ask.resolved_by_user_id)
    else:
        by = Answerer(kind="api_key", id=ask.resolved_by_api_key_id)
    return Answered(answers=tuple(json.answer(answer) for answer in ask.answers), answered_by=by, ask=ask)


def _raise_unanswered(ask: pb.AskState) -> NoReturn:
    if ask.status == pb.ASK_STATUS_REJECTED:
        raise AskRejectedError(ask)
    if ask.cancel_reason == pb.CANCEL_REASON_EXPIRED:
        raise AskExpiredError(ask)
    raise AskCancelledError(ask)
