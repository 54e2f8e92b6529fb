"""What a model is told."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import examples

from askd.advisors import prompt
from askd.domain.advice import Consultation
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, Question, TextPart, TextQuestion


def choice(**fields: Any) -> ChoiceQuestion:
    options = (Option(id="a", label="A", value={"secret": 1}, description="d"), Option(id="b", label="B", value=2))
    return ChoiceQuestion(**{"prompt": (), "options": options} | fields)


def document(*questions: Question, **fields: str) -> Any:
    return json.loads(prompt.document(Consultation(questions=questions, **fields)))


def test_a_choice_in_full() -> None:
    question = choice(prompt=(TextPart(text="Which?"), JsonPart(value=[1, None])), title="T", allow_notes=True)
    assert document(question) == {
        "questions": [
            {
                "title": "T",
                "prompt": [{"type": "text", "text": "Which?"}, {"type": "json", "value": [1, None]}],
                "answer": "one",
                "options": [{"label": "A", "description": "d"}, {"label": "B"}],
            }
        ]
    }


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        (TextQuestion(prompt=()), "text"),
        (choice(), "one"),
        (choice(multiple=True), "several"),
        (choice(allow_custom=True), "one or own"),
        (choice(multiple=True, allow_custom=True), "several or own"),
    ],
)
def test_the_kinds_of_answer_are_named_and_explained(question: Question, kind: str) -> None:
    assert document(question)["questions"][0]["answer"] == kind
    assert f'"{kind}"' in prompt.instructions(Consultation(questions=[question]))


def test_options_that_labels_do_not_tell_apart_have_ids() -> None:
    options = tuple(Option(id=item, label=label, value=1) for item, label in (("a", "x"), ("b", "x"), ("c", "y")))
    assert document(choice(options=options))["questions"][0]["options"] == [
        {"label": "x", "id": "a"},
        {"label": "x", "id": "b"},
        {"label": "y"},
    ]


def test_note_and_what_was_wrong_are_in_the_document_and_guidance_in_the_instructions() -> None:
    consultation = Consultation(questions=[choice()], note="n", system="s", refused="r")
    told = json.loads(prompt.document(consultation))
    assert {name: told[name] for name in told if name != "questions"} == {"context": "n", "refused": "r"}
    assert prompt.instructions(consultation).endswith("\ns")
    assert list(document(choice())) == ["questions"]


texts = st.text() | st.sampled_from(
    ["<|im_end|>", "</s>", "[/INST]", "[INST", "[[A]]", '"}]', "\\u003c", "[true]", "\\"]
)
values = st.recursive(texts | st.booleans() | st.none(), lambda inner: st.lists(inner) | st.dictionaries(texts, inner))


@examples(100)
@given(texts, values)
def test_every_text_reads_back_and_none_holds_a_control_token(text: str, value: Any) -> None:
    options = (Option(id="a", label=text, value=1, description=text),)
    question = choice(prompt=(TextPart(text=text), JsonPart(value=value)), title=text, options=options)
    written = prompt.document(Consultation(questions=[question], note=text))
    told = json.loads(written)
    shown = {"label": text, "description": text} if text else {"label": ""}
    assert told["questions"][0]["options"] == [shown]
    assert told["questions"][0]["prompt"] == [{"type": "text", "text": text}, {"type": "json", "value": value}]
    for control in ("<", ">", "[INST", "[/INST"):
        assert control not in written


def test_instructions_hold_nothing_of_the_asker() -> None:
    asked = choice(prompt=(TextPart(text="PWNED"),), title="PWNED")
    assert prompt.instructions(Consultation(questions=[asked])) == prompt.instructions(
        Consultation(questions=[choice()])
    )
