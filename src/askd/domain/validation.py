"""The limits of questions, and what their answers may come to (CONTRACT section 2)."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from askd.domain import forms, limits, wire_size
from askd.domain.errors import content, over_limit
from askd.domain.forms import Form
from askd.domain.parsing import parse_question
from askd.domain.paths import Path, render
from askd.domain.questions import ChoiceQuestion, Option, Part, Question, QuestionSet
from askd.domain.text import is_blank, size


def validate_question(value: object) -> None:
    """Check a question given as JSON data, as asking it alone would, without changing it (CONTRACT section 2).

    Raises ContentError with `.code` and a message that names the path of what is wrong.
    """
    check_question(parse_question(value, "question"))


def check_question(question: Question) -> QuestionSet:
    """check_questions of one question that is not in an array: paths start with `question`."""
    return _check([question], lambda _: "question", "question")


def check_questions(questions: Sequence[Question], path: Callable[[int], str] = "questions[{}]".format) -> QuestionSet:
    """Check questions asked together against every limit, and encode them. Their texts must be free of lone surrogates,
    as what comes from parse_question or from protobuf is.

    Raises ContentError that names the path and, for a limit, the limit and the actual size.
    """
    if not 1 <= len(questions) <= limits.QUESTIONS:
        raise content("questions", f"{len(questions)} questions, 1 to {limits.QUESTIONS} are allowed")
    return _check(questions, path, "questions")


def _check(questions: Sequence[Question], path: Callable[[int], str], whole: str) -> QuestionSet:
    measured = [_measure(question, path(index)) for index, question in enumerate(questions)]
    result = QuestionSet(
        questions=tuple(questions),
        encoded=f"[{','.join([item.form.encoded for item in measured])}]",
        encoded_size=json_array_size([item.encoded for item in measured]),
        wire_size=sum([wire_size.field(item.form.wire) for item in measured]),
    )
    _check_together(result, [item.largest for item in measured if item.largest is not None], whole)
    return result


def _check_together(questions: QuestionSet, largest: list["AnswerSizes"], path: str) -> None:
    answers_encoded = json_array_size([sizes.encoded for sizes in largest])
    answers_wire = sum([sizes.wire for sizes in largest])
    _at_most(questions.encoded_size, limits.ASK_QUESTIONS, path, "bytes of JSON")
    _at_most(questions.wire_size, limits.ASK_QUESTIONS, path, "bytes of protobuf")
    _at_most(answers_encoded, limits.ASK_ANSWERS, path, "bytes of JSON in the largest answers")
    _at_most(answers_wire, limits.ASK_ANSWERS, path, "bytes of protobuf in the largest answers")


def json_array_size(sizes: Iterable[int]) -> int:
    """The bytes of a JSON array of items of these sizes."""
    items = list(sizes)
    return sum(items) + len(items) + 1 if items else 2


class _Measured(NamedTuple):
    """A checked question with the bytes of its JSON, and the sizes of its largest answer where it is a choice."""

    form: Form
    encoded: int
    largest: "AnswerSizes | None"


def _measure(question: Question, path: str) -> _Measured:
    _check_title(question.title, (path, "title"))
    prompt = _measure_prompt(question.prompt, (path, "prompt"))
    values = _measure_options(question.options, (path, "options")) if isinstance(question, ChoiceQuestion) else []
    form = forms.of_question(question, prompt, values)
    encoded = _at_most(size(form.encoded), limits.QUESTION, path, "bytes of JSON")
    if not isinstance(question, ChoiceQuestion):
        return _Measured(form, encoded, None)
    largest = _largest_answer(question, values)
    _at_most(largest.encoded, limits.ANSWER, path, "bytes of JSON in the largest answer")
    return _Measured(form, encoded, largest)


def _check_title(title: str | None, path: Path) -> None:
    if title is None:
        return
    if is_blank(title):
        raise content(render(path), "must not be blank")
    _at_most(size(title), limits.TITLE, path)


def _measure_prompt(prompt: Sequence[Part], path: Path) -> list[Form]:
    _at_most(len(prompt), limits.PROMPT_PARTS, path, "parts")
    return [forms.of_part(part, (path, index)) for index, part in enumerate(prompt)]


def _measure_options(options: Sequence[Option], path: Path) -> list[Form]:
    """The forms of the options' values."""
    if not options:
        raise content(render(path), "at least one is required")
    _at_most(len(options), limits.OPTIONS, path, "options")
    seen: set[str] = set()
    values = []
    for index, option in enumerate(options):
        values.append(_measure_option(option, (path, index)))
        if option.id in seen:
            raise content(render(((path, index), "id")), "is used by an option before")
        seen.add(option.id)
    return values


def _measure_option(option: Option, path: Path) -> Form:
    if not option.id:
        raise content(render((path, "id")), "must not be empty")
    _at_most(size(option.id), limits.OPTION_ID, (path, "id"))
    _at_most(size(option.label), limits.OPTION_LABEL, (path, "label"))
    if option.description is not None:
        _at_most(size(option.description), limits.OPTION_DESCRIPTION, (path, "description"))
    return forms.of_value(option.value, (path, "value"))


def _at_most(actual: int, limit: int, path: Path, unit: str = "bytes") -> int:
    if actual > limit:
        raise over_limit(render(path), actual, limit, unit)
    return actual


class AnswerSizes(NamedTuple):
    """The bytes of an answer as canonical JSON and as an element of a protobuf field."""

    encoded: int
    wire: int


def largest_answer(question: ChoiceQuestion) -> AnswerSizes:
    """The sizes of the largest possible answer (CONTRACT section 2): resolved, with full free texts where allowed."""
    return _largest_answer(question, [forms.of_value(option.value, "value") for option in question.options])


def _largest_answer(question: ChoiceQuestion, values: list[Form]) -> AnswerSizes:
    selections = list(map(forms.of_selection, question.options, values))
    encoded = [size(form.encoded) for form in selections]
    wire = [wire_size.field(form.wire) for form in selections]
    custom = _FULL_CUSTOM if question.allow_custom else _NOTHING
    notes = _FULL_NOTES if question.allow_notes else _NOTHING
    if question.multiple:  # everything selected, and a custom answer
        parts = AnswerSizes(json_array_size(encoded) + custom.encoded, sum(wire) + custom.wire)
    else:  # one option selected, or a custom answer instead
        parts = AnswerSizes(
            json_array_size([]) + max(max(encoded), custom.encoded),
            max(max(wire), custom.wire),
        )
    return AnswerSizes(
        len('{"selected":}') + parts.encoded + notes.encoded,
        wire_size.field(wire_size.field(parts.wire + notes.wire)),
    )


_NOTHING = AnswerSizes(0, 0)
# A full text has 8 KiB with its quotes, of which the protobuf form has none, nor any escapes.
_FULL_WIRE = wire_size.field(limits.FREE_TEXT - 2)
_FULL_CUSTOM = AnswerSizes(len('"custom":,') + limits.FREE_TEXT, _FULL_WIRE)
_FULL_NOTES = AnswerSizes(len('"notes":,') + limits.FREE_TEXT, _FULL_WIRE)
