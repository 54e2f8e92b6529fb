"""What a consulted model is shown, and the advice that its output gives (CONTRACT section 8)."""

import json
from collections.abc import Sequence
from enum import StrEnum

from askd.domain import labels
from askd.domain.answers import Submission, resolve_all
from askd.domain.errors import AskdError, Code
from askd.domain.questions import ChoiceQuestion, Question
from askd.domain.values import value

#: The fields of a model's output: all of them, and no others.
FIELDS = ("recommendation", "reasoning", "confidence")
#: Characters of what a model wrote that a message quotes.
_QUOTED = 100


class Confidence(StrEnum):
    """How sure a consulted model says it is; see Confidence in the protos."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


@value
class TokenUsage:
    """Tokens that a consultation cost."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: "TokenUsage") -> "TokenUsage":
        return TokenUsage(prompt=self.prompt + other.prompt, completion=self.completion + other.completion)

    @property
    def total(self) -> int:
        """All of them."""
        return self.prompt + self.completion


@value
class Consultation:
    """What a model is asked. `note` and `system` are the answerer's words; `refused` says why the model's output before
    could not be used, and is empty at first."""

    questions: Sequence[Question]
    note: str = ""
    system: str = ""
    refused: str = ""


@value
class ModelReply:
    """What a model wrote, as yet unchecked, and what that cost."""

    output: str
    usage: TokenUsage


@value
class Advice:
    """Checked advice: a submission for each question, and the same in words, one after the other."""

    recommendation: tuple[str, ...]
    submissions: tuple[Submission, ...]
    reasoning: str
    confidence: Confidence


def output_invalid(reason: str) -> AskdError:
    """A model that wrote something else than it was asked for."""
    return AskdError(Code.MODEL_OUTPUT_INVALID, reason)


def provider_unavailable(reason: str) -> AskdError:
    """A provider that cannot be asked."""
    return AskdError(Code.PROVIDER_UNAVAILABLE, reason)


def read_advice(output: str, questions: Sequence[Question]) -> Advice:
    """The advice that a model's output gives on the questions that it was shown. An output that is not exactly what was
    asked for, or that recommends what would be no answer, is model_output_invalid with what is wrong."""
    fields = _fields(output)
    submissions = _submissions(_lists(fields["recommendation"], questions), questions)
    return Advice(
        recommendation=tuple(
            word for item, question in zip(submissions, questions, strict=True) for word in _words(item, question)
        ),
        submissions=submissions,
        reasoning=_reasoning(fields["reasoning"]),
        confidence=_confidence(fields["confidence"]),
    )


def _fields(output: str) -> dict[str, object]:
    if not output.strip():
        raise output_invalid("the output is empty")
    try:
        fields = json.loads(output)
    except (ValueError, RecursionError):
        raise output_invalid("the output is no JSON") from None
    if not isinstance(fields, dict):
        raise output_invalid("the output is no JSON object")
    for name in FIELDS:
        if name not in fields:
            raise output_invalid(f"missing '{name}' field")
    for name in fields:
        if name not in FIELDS:
            raise output_invalid(f"unknown {name[:_QUOTED]!r} field")
    return fields


def _lists(value: object, questions: Sequence[Question]) -> list[list[str]]:
    """The texts recommended for each question: one array for one question, an array of arrays for several."""
    if len(questions) == 1:
        return [_texts(value, "recommendation")]
    if not isinstance(value, list) or len(value) != len(questions):
        raise output_invalid(f"recommendation: must be an array of {len(questions)} arrays of strings")
    return [_texts(item, f"recommendation[{index}]") for index, item in enumerate(value)]


def _texts(value: object, path: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise output_invalid(f"{path}: must be an array of strings")
    return value


def _submissions(lists: Sequence[Sequence[str]], questions: Sequence[Question]) -> tuple[Submission, ...]:
    try:
        submissions = tuple(map(labels.submission, lists, questions, range(len(questions))))
        resolve_all(questions, submissions)
    except AskdError as error:
        raise output_invalid(_as_recommendation(error.message, len(questions))) from None
    return submissions


def _as_recommendation(message: str, count: int) -> str:
    rest = message.removeprefix("answers")
    return f"recommendation{rest.removeprefix('[0]') if count == 1 else rest}"


def _words(submission: Submission, question: Question) -> list[str]:
    if isinstance(submission, str):
        return [submission]
    assert isinstance(question, ChoiceQuestion), "the submission was checked"  # noqa: S101
    names = {option.id: option.label for option in question.options}
    custom = [] if submission.custom is None else [submission.custom]
    return [names[identifier] for identifier in submission.selected_ids] + custom


def _reasoning(value: object) -> str:
    if not isinstance(value, str):
        raise output_invalid("reasoning: must be a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise output_invalid("reasoning: a lone surrogate is no Unicode text") from None
    return value


def _confidence(value: object) -> Confidence:
    if value not in tuple(Confidence):
        raise output_invalid("confidence: must be high, medium or low")
    return Confidence(str(value))
