"""What a consulted model's output says (CONTRACT section 8)."""

import json
from typing import Any

import pytest

from askd.domain.advice import Confidence, TokenUsage, read_advice
from askd.domain.answers import ChoiceSubmission
from askd.domain.errors import AskdError, Code
from askd.domain.questions import ChoiceQuestion, Option, Question, TextQuestion

TEXT = TextQuestion(prompt=())
CHOICE = ChoiceQuestion(
    prompt=(), options=tuple(Option(id=item, label=item.upper(), value=1) for item in "abc"), multiple=True
)
CUSTOM = ChoiceQuestion(prompt=(), options=CHOICE.options, allow_custom=True)


def output(recommendation: Any, **fields: Any) -> str:
    return json.dumps({"recommendation": recommendation, "reasoning": "why", "confidence": "low"} | fields)


def refused(text: str, *questions: Question) -> str:
    with pytest.raises(AskdError) as raised:
        read_advice(text, questions)
    assert raised.value.code is Code.MODEL_OUTPUT_INVALID
    return raised.value.message


def test_one_question_is_answered_by_an_array() -> None:
    advice = read_advice(output(["C", "A"]), [CHOICE])
    assert advice.recommendation == ("C", "A")
    assert advice.submissions == (ChoiceSubmission(selected_ids=("c", "a")),)
    assert (advice.reasoning, advice.confidence) == ("why", Confidence.LOW)


def test_several_are_answered_by_an_array_of_arrays() -> None:
    advice = read_advice(output([["A"], ["Ada"], ["something"]]), [CHOICE, TEXT, CUSTOM])
    assert advice.recommendation == ("A", "Ada", "something")
    assert advice.submissions == (
        ChoiceSubmission(selected_ids=("a",)),
        "Ada",
        ChoiceSubmission(custom="something"),
    )


def test_an_option_named_by_its_id_is_told_by_its_label() -> None:
    options = tuple(Option(id=item, label="same", value=1) for item in "ab")
    advice = read_advice(output(["b"]), [ChoiceQuestion(prompt=(), options=options)])
    assert advice.recommendation == ("same",)
    assert advice.submissions == (ChoiceSubmission(selected_ids=("b",)),)


def test_a_label_is_told_as_it_was_declared() -> None:
    question = ChoiceQuestion(prompt=(), options=(Option(id="a", label="Cafe\u0301", value=1),))
    assert read_advice(output(["Café"]), [question]).recommendation == ("Cafe\u0301",)


@pytest.mark.parametrize(
    ("recommendation", "questions", "reason"),
    [
        (["D"], [CHOICE], 'recommendation: "D" is no option'),
        (["A", "A"], [CHOICE], "recommendation.selectedIds: an option is selected twice"),
        ([["A"]], [CHOICE], "recommendation: must be an array of strings"),
        (["A"], [CHOICE, TEXT], "recommendation: must be an array of 2 arrays of strings"),
        ([["A"]], [CHOICE, TEXT], "recommendation: must be an array of 2 arrays of strings"),
        ([["A"], "Ada"], [CHOICE, TEXT], "recommendation[1]: must be an array of strings"),
        ([["A"], []], [CHOICE, TEXT], "recommendation[1]: at least one label is required"),
        (["A", "own"], [CUSTOM], "recommendation: a single choice takes one option, or a custom answer instead"),
        ([""], [CUSTOM], "recommendation.custom: must not be empty"),
        (["x" * 9000], [CUSTOM], "recommendation.custom: 9002 bytes of JSON, the limit is 8192"),
        (["x" * 70_000], [TEXT], "recommendation: 70002 bytes of JSON, the limit is 65536"),
        (None, [TEXT], "recommendation: must be an array of strings"),
    ],
)
def test_what_would_be_no_answer_is_no_advice(recommendation: Any, questions: list[Question], reason: str) -> None:
    assert refused(output(recommendation), *questions) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the output is empty"),
        (" \n", "the output is empty"),
        ("A", "the output is no JSON"),
        (f"```json\n{output(['A'])}\n```", "the output is no JSON"),
        (f"{output(['A'])} and that is all", "the output is no JSON"),
        ("[" * 100_000, "the output is no JSON"),
        ("null", "the output is no JSON object"),
        ("{}", "missing 'recommendation' field"),
        ('{"recommendation": [], "confidence": "low"}', "missing 'reasoning' field"),
        ('{"recommendation": [], "reasoning": ""}', "missing 'confidence' field"),
        (output(["A"], **{"a\nb": 1}), "unknown 'a\\nb' field"),
        (output(["A"], confidence="High"), "confidence: must be high, medium or low"),
        (output(["A"], confidence=[1]), "confidence: must be high, medium or low"),
        (output(["A"], reasoning=None), "reasoning: must be a string"),
        (output(["A"], reasoning="\ud800"), "reasoning: a lone surrogate is no Unicode text"),
        (output(["\ud800"]), 'recommendation: "\\ud800" is no option'),
    ],
)
def test_what_is_not_exactly_what_was_asked_for_is_no_advice(text: str, reason: str) -> None:
    assert refused(text, CHOICE) == reason


def test_usage_adds_up() -> None:
    usage = TokenUsage(prompt=1, completion=2) + TokenUsage(prompt=10, completion=20)
    assert (usage.prompt, usage.completion, usage.total) == (11, 22, 33)
