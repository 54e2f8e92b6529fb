"""Questions and submissions as callers give them, as protobuf messages."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TypeAlias

from google.protobuf.duration_pb2 import Duration

from askd.client.errors import RequestError, refusing
from askd.domain import questions as domain
from askd.domain.answers import ChoiceSubmission
from askd.domain.errors import Code
from askd.domain.parsing import parse_question
from askd.domain.validation import check_question, check_questions
from askd.v1 import ask_pb2 as pb
from askd.v1 import session_service_pb2 as sessions
from askd.wire import content, json

#: A question as JSON data (CONTRACT section 2), as a dataclass, as a message, or a text question's prompt alone.
QuestionLike: TypeAlias = Mapping[str, object] | domain.TextQuestion | domain.ChoiceQuestion | pb.Question | str
#: A submission as JSON data (CONTRACT section 3): a string or an object; as a dataclass, or as a message.
SubmissionLike: TypeAlias = str | Mapping[str, object] | ChoiceSubmission | pb.AnswerSubmission
#: Seconds, or a span.
Span: TypeAlias = float | timedelta
#: The tool call that asks: JSON data {messageId, callId} or a message.
ToolLike: TypeAlias = Mapping[str, str] | pb.ToolCall


def questions(given: QuestionLike | Sequence[QuestionLike]) -> Sequence[pb.Question]:
    """The checked questions of an ask, one or several; QuestionError names the path of what is wrong."""
    items = given if isinstance(given, list | tuple) else [given]
    with refusing():
        parsed = [_question(item, f"questions[{index}]") for index, item in enumerate(items)]
        check_questions(parsed)
        return [content.question_to_proto(question) for question in parsed]


def question(given: QuestionLike) -> pb.Question:
    """One checked question; QuestionError names the path of what is wrong, from `question` on."""
    with refusing():
        parsed = _question(given, "question")
        check_question(parsed)
        return content.question_to_proto(parsed)


def _question(given: object, path: str) -> domain.Question:
    match given:
        case domain.TextQuestion() | domain.ChoiceQuestion():
            return given
        case pb.Question():
            return content.question_from_proto(given, path)
        case str():
            return parse_question({"type": "text", "prompt": given}, path)
        case Mapping():
            return parse_question(dict(given), path)
    return parse_question(given, path)


def submissions(given: SubmissionLike | Sequence[SubmissionLike]) -> Sequence[pb.AnswerSubmission]:
    """The submissions of an answer, one or several; what has no form of a submission is answer_invalid."""
    items = given if isinstance(given, list | tuple) else [given]
    with refusing(Code.ANSWER_INVALID):
        return [_submission(item, index) for index, item in enumerate(items)]


def _submission(given: object, index: int) -> pb.AnswerSubmission:
    match given:
        case pb.AnswerSubmission():
            return given
        case ChoiceSubmission():
            return content.submission_to_proto(given)
        case Mapping():
            return content.submission_to_proto(json.submission(dict(given), index))
    return content.submission_to_proto(json.submission(given, index))


def statuses(words: Sequence[str]) -> Sequence[pb.AskStatus.ValueType]:
    """States by their words, such as "pending"; an unknown one is invalid_arguments."""
    for word in words:
        if word not in _STATUSES:
            raise RequestError(Code.INVALID_ARGUMENTS, f"statuses: {word!r} is no status", field="statuses")
    return [_STATUSES[word] for word in words]


_STATUSES = {json.word(name, "ASK_STATUS_"): value for name, value in pb.AskStatus.items() if value}


def outcome(word: str) -> sessions.TurnOutcome.ValueType:
    """A turn's outcome by its word; an unknown one is invalid_arguments."""
    if word not in _OUTCOMES:
        raise RequestError(Code.INVALID_ARGUMENTS, f"outcome: {word!r} is no outcome of a turn", field="outcome")
    return _OUTCOMES[word]


_OUTCOMES = {json.word(name, "TURN_OUTCOME_"): value for name, value in sessions.TurnOutcome.items() if value}


def outcome_word(outcome: sessions.TurnOutcome.ValueType) -> str:
    """A turn's outcome as a word, such as "completed"."""
    return json.word(sessions.TurnOutcome.Name(outcome), "TURN_OUTCOME_")


def span(given: Span | None) -> Duration | None:
    """A message of seconds; what no span can be is invalid_arguments."""
    if given is None:
        return None
    message = Duration()
    with refusing():
        message.FromTimedelta(given if isinstance(given, timedelta) else timedelta(seconds=given))
    return message


def tool(given: ToolLike | None) -> pb.ToolCall | None:
    """The message of a tool call."""
    if given is None or isinstance(given, pb.ToolCall):
        return given
    with refusing():
        return pb.ToolCall(message_id=given.get("messageId", ""), call_id=given.get("callId", ""))


def new_id() -> str:
    """An id that nobody else makes, for what a caller did not name."""
    return uuid.uuid4().hex
