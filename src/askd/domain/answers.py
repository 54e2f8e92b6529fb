"""Submissions, and the answers that they resolve to (CONTRACT section 3)."""

import json
from collections.abc import Sequence
from typing import Any, TypeAlias

from askd.domain import canonical, limits, wire_size
from askd.domain.canonical import Json
from askd.domain.errors import AskdError, Code
from askd.domain.questions import ChoiceQuestion, Option, Question, TextQuestion
from askd.domain.text import size
from askd.domain.validation import json_array_size
from askd.domain.values import value


@value
class ChoiceSubmission:
    """What an answerer sends for a choice question."""

    selected_ids: tuple[str, ...] = ()
    custom: str | None = None
    notes: str | None = None


Submission: TypeAlias = str | ChoiceSubmission


@value
class Selection:
    """One selected option with the value it was declared with."""

    id: str
    value: Json


@value
class ChoiceAnswer:
    """The answer to a choice question, its selections in declaration order."""

    selected: tuple[Selection, ...] = ()
    custom: str | None = None
    notes: str | None = None


Answer: TypeAlias = str | ChoiceAnswer


@value
class AnswerSet:
    """The answers of one ask, in order, with their canonical JSON array."""

    answers: tuple[Answer, ...]
    encoded: str


def answer_invalid(index: int, reason: str, name: str = "") -> AskdError:
    """A submission that does not answer its question."""
    field = f"answers[{index}]{name and f'.{name}'}"
    return AskdError(Code.ANSWER_INVALID, f"{field}: {reason}", field=field)


def resolve_all(questions: Sequence[Question], submissions: Sequence[Submission]) -> AnswerSet:
    """Resolve submissions against the questions they answer; anything wrong is answer_invalid."""
    if len(submissions) != len(questions):
        reason = f"answers: {len(submissions)} for {len(questions)} questions"
        raise AskdError(Code.ANSWER_INVALID, reason, field="answers")
    answers = tuple(
        _resolve(question, submission, index)
        for index, (question, submission) in enumerate(zip(questions, submissions, strict=True))
    )
    encoded = [_encode(answer, index) for index, answer in enumerate(answers)]
    _check_together("JSON", json_array_size(map(size, encoded)))
    _check_together("protobuf", sum(wire_size.field(_wire_size(answer)) for answer in answers))
    return AnswerSet(answers=answers, encoded=f"[{','.join(encoded)}]")


def _check_together(what: str, actual: int) -> None:
    if actual > limits.ASK_ANSWERS:
        reason = f"answers: {actual} bytes of {what}, the limit is {limits.ASK_ANSWERS}"
        raise AskdError(Code.ANSWER_INVALID, reason, field="answers")


def _resolve(question: Question, submission: Submission, index: int) -> Answer:
    match question, submission:
        case TextQuestion(), str():
            check_text(submission, index)
            return submission
        case ChoiceQuestion(), ChoiceSubmission():
            _check_free_text(submission.custom, question.allow_custom, index, "custom")
            _check_free_text(submission.notes, question.allow_notes, index, "notes")
            selected = _select(question, submission.selected_ids, index)
            _check_count(question, len(selected), submission.custom is not None, index)
            return ChoiceAnswer(
                selected=tuple(Selection(id=option.id, value=option.value) for option in selected),
                custom=submission.custom,
                notes=submission.notes,
            )
        case TextQuestion(), _:
            raise answer_invalid(index, "a text question takes a string")
    raise answer_invalid(index, "a choice question takes selectedIds, custom and notes")


def _select(question: ChoiceQuestion, ids: Sequence[str], index: int) -> list[Option]:
    wanted = set(ids)
    if len(wanted) < len(ids):
        raise answer_invalid(index, "an option is selected twice", "selectedIds")
    selected = [option for option in question.options if option.id in wanted]
    if len(selected) < len(wanted):
        unknown = min(wanted - {option.id for option in selected})
        raise answer_invalid(index, f"{unknown!r} is no option", "selectedIds")
    return selected


def _check_count(question: ChoiceQuestion, selected: int, custom: bool, index: int) -> None:
    if question.multiple:
        if not selected and not custom:
            raise answer_invalid(index, "select at least one option or give a custom answer")
    elif selected + custom != 1:
        raise answer_invalid(index, "a single choice takes one option, or a custom answer instead")


def check_text(value: str, index: int, name: str = "") -> None:
    """Refuse a text with lone surrogates, which no encoding can carry."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise answer_invalid(index, "a lone surrogate is no Unicode text", name) from None


def _check_free_text(value: str | None, allowed: bool, index: int, name: str) -> None:
    if value is None:
        return
    if not allowed:
        raise answer_invalid(index, "is not allowed by the question", name)
    if not value:
        raise answer_invalid(index, "must not be empty", name)
    check_text(value, index, name)
    if (actual := canonical.encoded_size(value)) > limits.FREE_TEXT:
        raise answer_invalid(index, f"{actual} bytes of JSON, the limit is {limits.FREE_TEXT}", name)


def _encode(answer: Answer, index: int) -> str:
    text = canonical.encode(to_json(answer))
    if (actual := size(text)) > limits.ANSWER:
        raise answer_invalid(index, f"{actual} bytes of JSON, the limit is {limits.ANSWER}")
    return text


def _wire_size(answer: Answer) -> int:
    """An askd.v1.Answer message."""
    if isinstance(answer, str):
        return wire_size.field(size(answer))
    values = [wire_size.selection(item.id, wire_size.json_value(item.value)) for item in answer.selected]
    texts = wire_size.present_text(answer.custom) + wire_size.present_text(answer.notes)
    return wire_size.field(sum(map(wire_size.field, values)) + texts)


def to_json(answer: Answer) -> Json:
    """The JSON form: a string, or {selected, custom?, notes?}."""
    if isinstance(answer, str):
        return answer
    fields: dict[str, Json] = {"selected": [{"id": item.id, "value": item.value} for item in answer.selected]}
    texts = {"custom": answer.custom, "notes": answer.notes}
    return fields | {name: text for name, text in texts.items() if text is not None}


def decode_answers(encoded: str) -> tuple[Answer, ...]:
    """The answers of a stored `AnswerSet.encoded`, which was checked when it was stored."""
    return tuple(_from_stored(fields) for fields in json.loads(encoded))


def _from_stored(fields: Any) -> Answer:
    if isinstance(fields, str):
        return fields
    return ChoiceAnswer(**{**fields, "selected": tuple(Selection(**item) for item in fields["selected"])})
