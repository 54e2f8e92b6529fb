"""The forms a question takes as JSON data, and those it does not (CONTRACT section 2)."""

import copy
from typing import Any

import pytest
from hypothesis import given
from tests.domain.samples import (
    Object,
    choice_question,
    content_refusal,
    json_part,
    option,
    text_part,
    text_question,
)
from tests.domain.strategies import examples, question_like

import askd
from askd.domain.errors import Code
from askd.domain.parsing import parse_question
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, TextPart, TextQuestion, to_json
from askd.domain.validation import validate_question

LONE = "\ud800"


def refused(value: object, field: str, *said: str | int, code: Code = Code.INVALID_ARGUMENTS) -> None:
    before = repr(value)
    content_refusal(lambda: validate_question(value), code, field, *said)
    assert repr(value) == before


def test_validation_is_the_package_s_own() -> None:
    assert askd.validate_question is validate_question
    with pytest.raises(askd.ContentError) as raised:
        askd.validate_question({"type": "text"})
    assert raised.value.code == "invalid_arguments"


def test_a_valid_question_is_accepted_in_silence() -> None:
    for question in (text_question(), choice_question()):
        validate_question(question)


def test_a_plain_string_is_a_prompt_of_one_text_part() -> None:
    assert parse_question(text_question(prompt="Why?"), "question") == TextQuestion(prompt=(TextPart(text="Why?"),))


def test_a_prompt_holds_text_and_json_parts() -> None:
    prompt = [text_part(""), json_part(None), json_part({"a": [1]}), text_part("x")]
    question = parse_question(text_question(prompt=list(prompt)), "question")
    assert question.prompt == (TextPart(text=""), JsonPart(value=None), JsonPart(value={"a": [1]}), TextPart(text="x"))


def test_an_empty_prompt_is_legal() -> None:
    assert parse_question(text_question(prompt=[]), "question").prompt == ()


def test_a_choice_s_flags_are_false_and_its_texts_absent_where_left_out() -> None:
    assert parse_question(choice_question(option("a", label="", value=0)), "question") == ChoiceQuestion(
        prompt=(), options=(Option(id="a", label="", value=0),)
    )


def test_a_choice_keeps_all_that_it_declares() -> None:
    flags: Object = {"multiple": True, "allowCustom": True, "allowNotes": True}
    question = choice_question(option("a", description=""), option("b"), title="T", **flags)
    assert to_json(parse_question(question, "question")) == question


def test_flags_that_are_false_are_left_out_of_the_normalized_form() -> None:
    question = choice_question(multiple=False, allowCustom=False, allowNotes=False)
    assert to_json(parse_question(question, "question")) == choice_question()


@pytest.mark.parametrize("value", [None, "text", 1, [], True, LONE])
def test_a_question_that_is_no_object_is_refused(value: object) -> None:
    refused(value, "question", "object")


@pytest.mark.parametrize("kind", [None, "Text", "", 1, ["text"], LONE])
def test_a_question_of_another_kind_is_refused(kind: Any) -> None:
    refused({"type": kind, "prompt": []}, "question.type", "text", "choice")


def test_a_question_without_a_kind_is_refused() -> None:
    refused({"prompt": []}, "question.type")


@pytest.mark.parametrize(
    ("question", "field"),
    [
        ({"type": "text"}, "question.prompt"),
        ({"type": "choice", "options": [option()]}, "question.prompt"),
        ({"type": "choice", "prompt": []}, "question.options"),
        (text_question(prompt=[{}]), "question.prompt[0].type"),
        (text_question(prompt=[{"type": "text"}]), "question.prompt[0].text"),
        (text_question(prompt=[text_part(), {"type": "json"}]), "question.prompt[1].value"),
        (choice_question({"label": "", "value": 0}), "question.options[0].id"),
        (choice_question({"id": "a", "value": 0}), "question.options[0].label"),
        (choice_question(option(), {"id": "b", "label": ""}), "question.options[1].value"),
    ],
)
def test_a_field_that_is_required_must_be_there(question: Object, field: str) -> None:
    refused(question, field, "required")


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (text_question(extra=1), "question.extra"),
        (text_question(options=[]), "question.options"),
        (text_question(multiple=False), "question.multiple"),
        (text_question(allowCustom=False), "question.allowCustom"),
        (text_question(allowNotes=False), "question.allowNotes"),
        (choice_question(allow_custom=True), "question.allow_custom"),
        (text_question(prompt=[text_part() | {"value": 1}]), "question.prompt[0].value"),
        (text_question(prompt=[json_part(1) | {"text": ""}]), "question.prompt[0].text"),
        (choice_question(option(extra=None)), "question.options[0].extra"),
    ],
)
def test_an_unknown_field_is_refused_at_every_level(question: Object, field: str) -> None:
    refused(question, field, "no field")


@pytest.mark.parametrize(("key", "said"), [(LONE, "surrogate"), (5, "int"), (None, "NoneType")])
def test_a_field_whose_name_is_no_text_is_refused(key: Any, said: str) -> None:
    refused({**text_question(), key: 1}, "question", said)
    refused(text_question(prompt=[{**text_part(), key: 1}]), "question.prompt[0]", said)
    refused(choice_question({**option(), key: 1}), "question.options[0]", said)


@pytest.mark.parametrize("flag", ["multiple", "allowCustom", "allowNotes"])
@pytest.mark.parametrize("value", [None, 0, 1, "true", []])
def test_a_flag_is_true_or_false_and_never_null(flag: str, value: Any) -> None:
    refused(choice_question(**{flag: value}), f"question.{flag}", "true or false")


@pytest.mark.parametrize("value", [None, 1, True, [], {}])
@pytest.mark.parametrize(
    ("make", "field"),
    [
        (lambda value: text_question(title=value), "question.title"),
        (lambda value: text_question(prompt=[text_part(value)]), "question.prompt[0].text"),
        (lambda value: text_question(prompt=[{"type": value}]), "question.prompt[0].type"),
        (lambda value: choice_question(option(value)), "question.options[0].id"),
        (lambda value: choice_question(option(label=value)), "question.options[0].label"),
        (lambda value: choice_question(option(description=value)), "question.options[0].description"),
    ],
)
def test_a_text_is_a_string_and_never_null(make: Any, field: str, value: object) -> None:
    refused(make(value), field, "string")


@pytest.mark.parametrize("value", [None, 1, {}])
def test_a_prompt_is_a_string_or_an_array(value: Any) -> None:
    refused(text_question(prompt=value), "question.prompt", "array")


@pytest.mark.parametrize("value", [None, "a", {}])
def test_options_are_an_array(value: Any) -> None:
    refused({**choice_question(), "options": value}, "question.options", "array")


@pytest.mark.parametrize("value", [None, "a", []])
def test_parts_and_options_are_objects(value: Any) -> None:
    refused(text_question(prompt=[value]), "question.prompt[0]", "object")
    refused(choice_question(value, option()), "question.options[0]", "object")


@pytest.mark.parametrize("kind", ["image", "Text", "", "json "])
def test_a_part_of_another_kind_is_unsupported(kind: str) -> None:
    question = text_question(prompt=[text_part(), {"type": kind, "url": "…"}])
    refused(question, "question.prompt[1].type", "text or json", code=Code.CONTENT_KIND_UNSUPPORTED)


@pytest.mark.parametrize(
    ("question", "field"),
    [
        (text_question(title=LONE), "question.title"),
        (text_question(prompt=LONE), "question.prompt"),
        (text_question(prompt=[text_part(LONE)]), "question.prompt[0].text"),
        (text_question(prompt=[{"type": LONE}]), "question.prompt[0].type"),
        (text_question(prompt=[json_part({"a": [LONE]})]), "question.prompt[0].value.a[0]"),
        (text_question(prompt=[json_part({"a": {LONE: 1}})]), "question.prompt[0].value.a"),
        (choice_question(option(LONE)), "question.options[0].id"),
        (choice_question(option(label=LONE)), "question.options[0].label"),
        (choice_question(option(description=LONE)), "question.options[0].description"),
        (choice_question(option(value=[{LONE: 1}])), "question.options[0].value[0]"),
        (choice_question(option(value={"b": LONE})), "question.options[0].value.b"),
    ],
)
def test_a_lone_surrogate_is_refused_wherever_it_is(question: Object, field: str) -> None:
    refused(question, field, "surrogate")


@pytest.mark.parametrize("value", [LONE, {LONE: 1}, [2**53], float("nan"), (1,)])
def test_illegal_json_is_refused_before_a_question_is_made_of_it(value: Any) -> None:
    """What parses can be sent as protobuf, whose texts are UTF-8 and whose numbers are doubles."""
    for question in (text_question(prompt=[json_part(value)]), choice_question(option(value=value))):
        with pytest.raises(askd.ContentError):
            parse_question(question, "question")


@given(question_like())
@examples(200)
def test_whatever_is_validated_is_accepted_or_refused_as_content_error_and_left_as_it_was(value: Any) -> None:
    before = copy.deepcopy(value)
    error = verdict(value)
    assert repr(value) == repr(before)
    if error is not None:
        assert error.code in ("invalid_arguments", "content_kind_unsupported", "content_limit_exceeded")
        assert error.field == "question" or error.field.startswith("question.")
        assert error.message.startswith(f"{error.field}: ")
        assert error.message.encode()


def verdict(value: object) -> askd.ContentError | None:
    try:
        validate_question(value)
    except askd.ContentError as error:
        return error
    return None
