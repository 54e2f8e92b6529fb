"""What answers a question, and every way not to (CONTRACT section 3)."""

import pytest
from tests.domain.samples import FULL_TEXT, Object, choice_question, located_refusal, option, parsed, text_question

from askd.domain.answers import (
    Answer,
    ChoiceAnswer,
    ChoiceSubmission,
    Selection,
    Submission,
    resolve_all,
    to_json,
)
from askd.domain.errors import Code
from askd.domain.questions import Question

TEXT = text_question()
OPTIONS = (option("a", value=1), option("b", value=None), option("c", value={"x": [True]}))
SINGLE = choice_question(*OPTIONS)
MULTIPLE = choice_question(*OPTIONS, multiple=True)
FREE_SINGLE = choice_question(*OPTIONS, allowCustom=True, allowNotes=True)
FREE_MULTIPLE = choice_question(*OPTIONS, multiple=True, allowCustom=True, allowNotes=True)


def choose(*ids: str, custom: str | None = None, notes: str | None = None) -> ChoiceSubmission:
    return ChoiceSubmission(selected_ids=ids, custom=custom, notes=notes)


def resolved(question: Object, submission: Submission) -> Answer:
    (answer,) = resolve_all(parsed(question), [submission]).answers
    return answer


def refused(question: Object, submission: Submission, name: str, *said: str | int) -> None:
    """Refused as the second of two answers, whose index the error names."""
    field = f"answers[1].{name}" if name else "answers[1]"
    questions = parsed(text_question(), question)
    located_refusal(lambda: resolve_all(questions, ["", submission]), Code.ANSWER_INVALID, field, *said)


# --- what is right ---


@pytest.mark.parametrize("text", ["", " ", "yes", "\x00", "\u2028é\U0001f600"])
def test_a_text_answer_is_any_text_and_comes_back_as_it_went_in(text: str) -> None:
    assert resolved(TEXT, text) == text


def test_selections_carry_their_declared_values() -> None:
    assert resolved(SINGLE, choose("c")) == ChoiceAnswer(selected=(Selection(id="c", value={"x": [True]}),))


@pytest.mark.parametrize("ids", [("a", "b", "c"), ("c", "b", "a"), ("b", "c", "a")])
def test_selections_come_in_declaration_order(ids: tuple[str, ...]) -> None:
    answer = resolved(MULTIPLE, choose(*ids))
    assert to_json(answer) == {
        "selected": [{"id": "a", "value": 1}, {"id": "b", "value": None}, {"id": "c", "value": {"x": [True]}}]
    }


@pytest.mark.parametrize("text", [" ", "\n", "\u2003", "\x00", "in my words"])
def test_custom_and_notes_may_be_blank_and_come_back_as_they_went_in(text: str) -> None:
    answer = resolved(FREE_MULTIPLE, choose("a", custom=text, notes=text))
    assert to_json(answer) == {"selected": [{"id": "a", "value": 1}], "custom": text, "notes": text}


@pytest.mark.parametrize("question", [FREE_SINGLE, FREE_MULTIPLE])
def test_a_custom_answer_needs_no_selection(question: Object) -> None:
    assert resolved(question, choose(custom="mine")) == ChoiceAnswer(custom="mine")
    assert resolved(question, choose(custom="mine", notes="note")) == ChoiceAnswer(custom="mine", notes="note")


@pytest.mark.parametrize("question", [FREE_SINGLE, FREE_MULTIPLE])
def test_notes_may_accompany_a_selection(question: Object) -> None:
    answer = resolved(question, choose("b", notes="note"))
    assert to_json(answer) == {"selected": [{"id": "b", "value": None}], "notes": "note"}


def test_a_multiple_choice_takes_selections_and_a_custom_answer_together() -> None:
    answer = resolved(FREE_MULTIPLE, choose("b", "a", custom="mine"))
    assert to_json(answer) == {"selected": [{"id": "a", "value": 1}, {"id": "b", "value": None}], "custom": "mine"}


def test_questions_are_answered_together_in_order() -> None:
    result = resolve_all(parsed(TEXT, SINGLE, TEXT), ["first", choose("a"), "last"])
    assert result.answers == ("first", ChoiceAnswer(selected=(Selection(id="a", value=1),)), "last")
    assert result.encoded == '["first",{"selected":[{"id":"a","value":1}]},"last"]'


# --- what is wrong ---


@pytest.mark.parametrize("question", [SINGLE, MULTIPLE, FREE_SINGLE, FREE_MULTIPLE])
def test_an_unknown_id_is_refused(question: Object) -> None:
    refused(question, choose("d"), "selectedIds", "'d'")
    refused(question, choose("a", "A"), "selectedIds", "'A'")
    refused(question, choose("\ud800"), "selectedIds", r"'\ud800'")


@pytest.mark.parametrize("question", [SINGLE, MULTIPLE])
def test_a_repeated_id_is_refused(question: Object) -> None:
    refused(question, choose("a", "a"), "selectedIds", "twice")
    refused(question, choose("a", "b", "c", "a"), "selectedIds", "twice")


@pytest.mark.parametrize("question", [SINGLE, MULTIPLE])
@pytest.mark.parametrize("text", ["mine", ""])
def test_custom_and_notes_are_refused_where_they_are_not_allowed(question: Object, text: str) -> None:
    refused(question, choose("a", custom=text), "custom", "not allowed")
    refused(question, choose("a", notes=text), "notes", "not allowed")


def test_custom_and_notes_are_allowed_each_for_itself() -> None:
    only_custom = choice_question(option("a"), allowCustom=True)
    only_notes = choice_question(option("a"), allowNotes=True)
    assert resolved(only_custom, choose(custom="mine")) == ChoiceAnswer(custom="mine")
    refused(only_custom, choose("a", notes="note"), "notes", "not allowed")
    refused(only_notes, choose(custom="mine"), "custom", "not allowed")


@pytest.mark.parametrize("question", [FREE_SINGLE, FREE_MULTIPLE])
def test_an_empty_custom_or_notes_is_refused(question: Object) -> None:
    refused(question, choose(custom=""), "custom", "empty")
    refused(question, choose("a", notes=""), "notes", "empty")


@pytest.mark.parametrize("question", [SINGLE, FREE_SINGLE])
@pytest.mark.parametrize("ids", [(), ("a", "b"), ("a", "b", "c")])
def test_a_single_choice_takes_exactly_one_selection(question: Object, ids: tuple[str, ...]) -> None:
    refused(question, choose(*ids), "", "one option")


def test_a_single_choice_takes_a_selection_or_a_custom_answer_and_never_both() -> None:
    refused(FREE_SINGLE, choose("a", custom="mine"), "", "custom answer instead")


@pytest.mark.parametrize("question", [MULTIPLE, FREE_MULTIPLE])
def test_a_multiple_choice_takes_at_least_one_selection_or_a_custom_answer(question: Object) -> None:
    refused(question, choose(), "", "at least one option", "custom")


@pytest.mark.parametrize("question", [FREE_SINGLE, FREE_MULTIPLE])
def test_notes_alone_are_no_answer(question: Object) -> None:
    refused(question, choose(notes="note"), "", "option")


def test_a_submission_of_the_other_kind_is_refused() -> None:
    refused(TEXT, choose("a"), "", "string")
    refused(TEXT, choose(), "", "string")
    for question in (SINGLE, MULTIPLE, FREE_SINGLE, FREE_MULTIPLE):
        refused(question, "a", "", "selectedIds")


@pytest.mark.parametrize("count", [0, 1, 3])
def test_there_is_exactly_one_submission_to_a_question(count: int) -> None:
    questions = parsed(TEXT, TEXT)
    located_refusal(lambda: resolve_all(questions, [""] * count), Code.ANSWER_INVALID, "answers", count, "2 questions")


@pytest.mark.parametrize("text", ["\ud800", "a\udfff"])
def test_a_lone_surrogate_is_refused(text: str) -> None:
    refused(TEXT, text, "", "surrogate")
    refused(FREE_SINGLE, choose(custom=text), "custom", "surrogate")
    refused(FREE_SINGLE, choose("a", notes=text), "notes", "surrogate")


def test_one_wrong_answer_refuses_them_all() -> None:
    questions = parsed(TEXT, SINGLE, TEXT)
    located_refusal(
        lambda: resolve_all(questions, ["", choose("x"), ""]), Code.ANSWER_INVALID, "answers[1].selectedIds"
    )


# --- limits ---


@pytest.mark.parametrize(
    ("text", "encoded"), [("x" * 65_534, 65_536), ("é" * 32_767, 65_536), ("\x00" * 10_922, 65_534)]
)
def test_an_answer_may_encode_to_64_kib_and_no_more(text: str, encoded: int) -> None:
    assert resolved(TEXT, text) == text
    refused(TEXT, text + "x" * (65_537 - encoded), "", 65_537, 65_536)


@pytest.mark.parametrize("text", [FULL_TEXT, "é" * 4_095, "\x00" * 1_365, '"' * 4_095, "\u2028" * 2_730])
def test_custom_and_notes_may_encode_to_8_kib_each_and_no_more(text: str) -> None:
    answer = resolved(FREE_MULTIPLE, choose(custom=text, notes=text))
    assert answer == ChoiceAnswer(custom=text, notes=text)
    refused(FREE_MULTIPLE, choose(custom=text + "x", notes=text), "custom", 8_193, 8_192)
    refused(FREE_MULTIPLE, choose(custom=text, notes=text + "x"), "notes", 8_193, 8_192)


MIB = 1024 * 1024


def texts(count: int) -> list[Question]:
    return parsed(*[TEXT] * count)


def test_the_answers_of_an_ask_may_encode_to_1_mib_together_and_no_more() -> None:
    # With quotes that are escaped, an answer takes half as much protobuf as JSON.
    escaped = '"' * 32_000
    rest = MIB - len('["') - 16 * len(f'"{escaped * 2},"') - len('"]')
    exact = [*[escaped] * 16, "x" * rest]
    assert len(resolve_all(texts(17), exact).encoded) == MIB
    exact[16] += "x"
    located_refusal(lambda: resolve_all(texts(17), exact), Code.ANSWER_INVALID, "answers", MIB + 1, MIB, "JSON")


def test_the_answers_of_an_ask_may_take_1_mib_of_protobuf_together_and_no_more() -> None:
    # Two tags and two lengths of three bytes go before each text.
    rest = MIB - 16 * (8 + 64_000) - 8
    exact = [*["x" * 64_000] * 16, "x" * rest]
    assert len(resolve_all(texts(17), exact).encoded) < MIB
    exact[16] += "x"
    located_refusal(lambda: resolve_all(texts(17), exact), Code.ANSWER_INVALID, "answers", MIB + 1, MIB, "protobuf")
