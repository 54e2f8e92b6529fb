"""Every limit of questions, at its last legal size and one beyond (CONTRACT section 2)."""

from collections.abc import Callable
from typing import Any

import pytest
from tests.domain.samples import (
    FULL_TEXT,
    Object,
    choice_question,
    content_refusal,
    encoded_size,
    json_part,
    nested,
    option,
    parsed,
    question_of_size,
    text_part,
    text_question,
)
from tests.domain.test_text import VISIBLE_BLANKS, WHITE_SPACE

from askd.domain.answers import ChoiceSubmission, resolve_all
from askd.domain.canonical import Json
from askd.domain.errors import Code
from askd.domain.questions import QuestionSet
from askd.domain.validation import check_question, check_questions, validate_question
from askd.v1 import ask_pb2 as pb
from askd.wire.content import fill_answer, question_to_proto

EXCEEDED = Code.CONTENT_LIMIT_EXCEEDED
INVALID = Code.INVALID_ARGUMENTS
MIB = 1024 * 1024


def checked(*questions: Object) -> QuestionSet:
    return check_questions(parsed(*questions))


def fitted(measure: Callable[[int], int], padding: int, target: int) -> int:
    """The padding with which something measures exactly the target."""
    padding += target - measure(padding)
    assert measure(padding) == target
    return padding


def refused(question: object, code: Code, field: str, *said: str | int) -> None:
    content_refusal(lambda: validate_question(question), code, field, *said)


def refused_together(questions: list[Object], *said: str | int) -> None:
    content_refusal(lambda: checked(*questions), EXCEEDED, "questions", *said)


# --- texts and counts ---


@pytest.mark.parametrize(
    ("make", "field", "limit"),
    [
        (lambda text: text_question(title=text), "question.title", 256),
        (lambda text: choice_question(title=text), "question.title", 256),
        (lambda text: choice_question(option(text)), "question.options[0].id", 128),
        (lambda text: choice_question(option(label=text)), "question.options[0].label", 256),
        (lambda text: choice_question(option(description=text)), "question.options[0].description", 2048),
        (lambda text: choice_question(option(), option("b", label=text)), "question.options[1].label", 256),
    ],
)
@pytest.mark.parametrize("character", ["x", "é", "\U0001f600", "\x00"])
def test_a_text_may_have_as_many_utf_8_bytes_as_its_limit_and_no_more(
    make: Any, field: str, limit: int, character: str
) -> None:
    exact = character * (limit // len(character.encode()))
    validate_question(make(exact))
    refused(make(exact + "x"), EXCEEDED, field, limit + 1, limit)


@pytest.mark.parametrize(
    ("make", "field", "limit"),
    [
        (lambda count: text_question(prompt=[text_part()] * count), "question.prompt", 64),
        (lambda count: choice_question(prompt=[json_part(0)] * count), "question.prompt", 64),
        (lambda count: choice_question(*(option(str(index)) for index in range(count))), "question.options", 100),
    ],
)
def test_there_may_be_as_many_as_the_limit_says_and_no_more(make: Any, field: str, limit: int) -> None:
    validate_question(make(limit))
    refused(make(limit + 1), EXCEEDED, field, limit + 1, limit)


@pytest.mark.parametrize("blank", ["", *WHITE_SPACE, WHITE_SPACE, " " * 300])
def test_a_blank_title_is_invalid(blank: str) -> None:
    refused(text_question(title=blank), INVALID, "question.title", "blank")


@pytest.mark.parametrize("title", [*VISIBLE_BLANKS, " x ", "\u200b", "\x1c"])
def test_a_title_that_only_looks_blank_is_legal(title: str) -> None:
    validate_question(text_question(title=title))


def test_a_choice_without_options_is_invalid() -> None:
    refused({**choice_question(), "options": []}, INVALID, "question.options", "at least one")


def test_an_empty_option_id_is_invalid() -> None:
    refused(choice_question(option(), option("")), INVALID, "question.options[1].id", "empty")


@pytest.mark.parametrize("blank", [" ", "\x00", "\u2003"])
def test_an_option_id_may_be_blank(blank: str) -> None:
    validate_question(choice_question(option(blank)))


def test_a_repeated_option_id_is_invalid() -> None:
    refused(choice_question(option("a"), option("b"), option("a")), INVALID, "question.options[2].id", "before")


def test_option_ids_that_differ_only_in_normal_form_or_case_are_different() -> None:
    validate_question(choice_question(option("é"), option("e\u0301"), option("É")))


def test_options_may_share_their_label_and_value() -> None:
    validate_question(choice_question(option("a", label="", description=""), option("b", label="", description="")))


# --- JSON values ---


def in_values(value: Any) -> list[tuple[Object, str]]:
    """A value in each place that takes any JSON, and its path."""
    return [
        (text_question(prompt=[text_part(), json_part(value)]), "question.prompt[1].value"),
        (choice_question(option(), option("b", value=value)), "question.options[1].value"),
    ]


@pytest.mark.parametrize(
    "value", [None, False, 0, "", [], {}, 2**53 - 1, -(2**53) + 1, 9007199254740991.0, 1e-7, nested(20), {"": "\x00"}]
)
def test_any_json_is_legal_as_a_value(value: Any) -> None:
    for question, _ in in_values(value):
        validate_question(question)


@pytest.mark.parametrize(
    ("value", "step", "said"),
    [
        (2**53, "", "2^53-1"),
        ([-(2**53)], "[0]", "2^53-1"),
        ({"n": 2.0**53}, ".n", "2^53-1"),
        (10**400, "", "2^53-1"),
        (1e300, "", "2^53-1"),
        ([0, float("nan")], "[1]", "finite"),
        (float("-inf"), "", "finite"),
        ("\ud800", "", "surrogate"),
        ({"\ud800": 0}, "", "surrogate"),
        ((1,), "", "tuple"),
        (nested(21), ".in[0]" * 10, "20 levels"),
    ],
)
def test_other_values_are_invalid_at_their_path(value: Any, step: str, said: str) -> None:
    for question, path in in_values(value):
        refused(question, INVALID, path + step, said)


# --- sizes of questions ---


def test_a_question_may_encode_to_256_kib_and_no_more() -> None:
    assert checked(question_of_size(262_144)).encoded_size == 262_144 + 2
    refused(question_of_size(262_145), EXCEEDED, "question", 262_145, 262_144, "JSON")


def test_what_is_counted_of_a_question_is_its_normalized_form() -> None:
    padding = 262_144 - encoded_size(choice_question(prompt=[text_part("")]))
    flags: Object = {"multiple": False, "allowCustom": False, "allowNotes": False}
    validate_question(choice_question(prompt="x" * padding, **flags))
    refused(choice_question(prompt="x" * (padding + 1), **flags), EXCEEDED, "question", 262_145, 262_144)


def test_escapes_and_quotes_count() -> None:
    padding = 262_144 - encoded_size(text_question(prompt=[text_part("")]))
    text = "\x00" * (padding // 6) + "x" * (padding % 6)
    validate_question(text_question(prompt=text))
    refused(text_question(prompt=text + "x"), EXCEEDED, "question", 262_145, 262_144)


def test_an_ask_holds_1_to_32_questions() -> None:
    assert len(checked(*[text_question()] * 32).questions) == 32
    content_refusal(lambda: checked(), INVALID, "questions", "0 questions", "32")
    content_refusal(lambda: checked(*[text_question()] * 33), INVALID, "questions", "33 questions", "32")


def test_a_fault_in_a_later_question_is_named_by_its_index() -> None:
    questions = [text_question(), text_question(title="x" * 257)]
    content_refusal(lambda: checked(*questions), EXCEEDED, "questions[1].title", 257, 256)


def of_sizes(*sizes: int) -> list[Object]:
    return [question_of_size(size) for size in sizes]


def test_the_questions_of_an_ask_may_encode_to_1_mib_together_and_no_more() -> None:
    brackets_and_commas = 5
    sizes = [262_144] * 3 + [262_144 - brackets_and_commas]
    assert checked(*of_sizes(*sizes)).encoded_size == MIB
    sizes[3] += 1
    refused_together(of_sizes(*sizes), MIB + 1, MIB, "JSON")


def numbers(padding: int) -> Object:
    """A question that is small as JSON and takes about 1 MiB as protobuf."""
    return text_question(prompt=[json_part([0] * 95_250), text_part("x" * padding)])


def wire_size(question: Object) -> int:
    """The real size of a question in an ask's protobuf message."""
    return pb.AskState(questions=map(question_to_proto, parsed(question))).ByteSize()


def test_the_questions_of_an_ask_may_take_1_mib_of_protobuf_together_and_no_more() -> None:
    padding = fitted(lambda padding: wire_size(numbers(padding)), 1_000, MIB)
    exact = checked(numbers(padding))
    assert exact.wire_size == MIB
    assert exact.encoded_size < MIB // 4
    refused_together([numbers(padding + 1)], MIB + 1, MIB, "protobuf")
    refused_together([text_question(), numbers(padding)], MIB + 4, MIB, "protobuf")


def test_one_question_that_takes_more_is_named_as_itself_where_it_is_alone() -> None:
    padding = fitted(lambda padding: wire_size(numbers(padding)), 1_000, MIB + 1)
    refused(numbers(padding), EXCEEDED, "question", MIB + 1, MIB, "protobuf")


# --- sizes of the largest answers ---


def padded_choice(padding: int, **flags: Json) -> Object:
    return choice_question(option("a", value="é"), option("b", value="x" * padding), **flags)


def largest_answers(question: Object) -> list[Json]:
    """The answers of which one is the largest, as the contract says."""
    options: Any = question["options"]
    selected: list[Json] = [{"id": item["id"], "value": item["value"]} for item in options]
    custom: Object = {"custom": FULL_TEXT} if question.get("allowCustom") else {}
    notes: Object = {"notes": FULL_TEXT} if question.get("allowNotes") else {}
    if question.get("multiple"):
        return [{"selected": selected, **custom, **notes}]
    answers: list[Json] = [{"selected": [item], **notes} for item in selected]
    return [*answers, {"selected": [], **custom, **notes}] if custom else answers


@pytest.mark.parametrize("multiple", [False, True])
@pytest.mark.parametrize("custom", [False, True])
@pytest.mark.parametrize("notes", [False, True])
def test_the_largest_answer_of_a_question_may_encode_to_64_kib_and_no_more(
    multiple: bool, custom: bool, notes: bool
) -> None:
    flags: dict[str, Json] = {"multiple": multiple, "allowCustom": custom, "allowNotes": notes}
    padding = fitted(
        lambda padding: max(map(encoded_size, largest_answers(padded_choice(padding, **flags)))), 20_000, 65_536
    )
    validate_question(padded_choice(padding, **flags))
    said = (65_537, 65_536, "largest answer")
    refused(padded_choice(padding + 1, **flags), EXCEEDED, "question", *said)


def choices(padding: int, value: Json) -> list[Object]:
    """32 choice questions that allow everything, the last with a value of its own."""
    flags: Object = {"multiple": True, "allowCustom": True, "allowNotes": True}
    values = [value] * 31 + ["x" * padding]
    return [choice_question(option(value=item), **flags) for item in values]


def largest_encoded(questions: list[Object]) -> int:
    return encoded_size([answer for question in questions for answer in largest_answers(question)])


def test_the_largest_answers_of_an_ask_may_encode_to_1_mib_together_and_no_more() -> None:
    value = "x" * 16_000
    padding = fitted(lambda padding: largest_encoded(choices(padding, value)), 10_000, MIB)
    checked(*choices(padding, value))
    refused_together(choices(padding + 1, value), MIB + 1, MIB, "JSON in the largest answers")


def test_text_questions_do_not_count_among_the_largest_answers() -> None:
    value = "x" * 17_000
    padding = fitted(lambda padding: largest_encoded(choices(padding, value)[1:]), 10_000, MIB)
    checked(text_question(), *choices(padding, value)[1:])


def largest_wire_size(questions: list[Object]) -> int:
    """The real size of the largest answers to questions of one option that allow everything."""
    submission = ChoiceSubmission(selected_ids=("a",), custom=FULL_TEXT, notes=FULL_TEXT)
    ask = pb.AskState()
    for question in parsed(*questions):
        fill_answer(ask.answers.add(), resolve_all([question], [submission]).answers[0])
    return ask.ByteSize()


def test_the_largest_answers_of_an_ask_may_take_1_mib_of_protobuf_together_and_no_more() -> None:
    value: Json = [0] * 1_530
    padding = fitted(lambda padding: largest_wire_size(choices(padding, value)), 1_000, MIB)
    checked(*choices(padding, value))
    refused_together(choices(padding + 1, value), MIB + 1, MIB, "protobuf in the largest answers")


def test_one_question_alone_is_checked_as_an_ask_of_it_would_be() -> None:
    (question,) = parsed(choice_question(title="T"))
    assert check_question(question) == check_questions([question])
