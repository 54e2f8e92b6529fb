"""How arrays of labels select options, and how questions of the core look in dialect B."""

import unicodedata
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import examples
from tests.questions import chosen, json_value, text

from askd.domain.errors import AskdError
from askd.gateway import translation
from askd.gateway.refusals import RefusalError
from askd.v1 import ask_pb2 as pb


def choice(*labels: str, custom: bool = False, multiple: bool = False, **fields: Any) -> pb.Question:
    """A question whose options have the ids 0, 1, …"""
    options = [pb.ChoiceOption(id=str(n), label=label, value=json_value(n)) for n, label in enumerate(labels)]
    return pb.Question(choice=pb.ChoiceQuestion(options=options, allow_custom=custom, multiple=multiple), **fields)


TEXT = pb.Question(text=pb.TextQuestion())
COMPOSED, DECOMPOSED = "Caf\u00e9", "Cafe\u0301"


@pytest.mark.parametrize(
    ("question", "labels", "submission"),
    [
        (choice("Yes", "No"), ["No"], chosen("1")),
        (choice("Yes", "No", multiple=True), ["No", "Yes"], chosen("1", "0")),
        # The exact label goes before everything else, also before ids.
        (choice("1", "0", custom=True), ["0"], chosen("1")),
        (choice(COMPOSED, DECOMPOSED), [DECOMPOSED], chosen("1")),
        (choice("Tea", COMPOSED), [DECOMPOSED], chosen("1")),
        # Ids select only where labels repeat.
        (choice("Tea", "Tea", "Milk"), ["1"], chosen("1")),
        (choice("Tea", "Tea", "Milk"), ["Milk"], chosen("2")),
        (choice("Tea", "Milk", custom=True), ["1"], chosen(custom="1")),
        (choice("Tea", custom=True), ["tea"], chosen(custom="tea")),
        (choice("Tea", custom=True), ["Tea "], chosen(custom="Tea ")),
        (choice("Tea", "Milk", custom=True, multiple=True), ["Milk", "Cocoa"], chosen("1", custom="Cocoa")),
        (TEXT, ["Ada"], text("Ada")),
        (TEXT, [""], text("")),
    ],
)
def test_what_labels_select(question: pb.Question, labels: list[Any], submission: pb.AnswerSubmission) -> None:
    assert translation.submissions([labels], [question]) == [submission]


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        (choice("Tea", "Tea"), ["Tea"]),
        (choice(COMPOSED, unicodedata.normalize("NFD", COMPOSED)), [COMPOSED + "x"]),
        (choice("\u1e69", "s\u0323\u0307", custom=True), ["s\u0307\u0323"]),
        (choice("Tea"), ["Cocoa"]),
        (choice("Tea", custom=True), ["Cocoa", "Coffee"]),
        (choice("Tea"), []),
        (choice("Tea"), "Tea"),
        (choice("Tea"), [1]),
        (choice("Tea"), None),
        (TEXT, []),
        (TEXT, ["Ada", "Grace"]),
    ],
)
def test_what_labels_do_not_select(question: pb.Question, labels: Any) -> None:
    with pytest.raises(AskdError) as raised:
        translation.submissions([["Tea"], labels], [choice("Tea"), question])
    assert raised.value.code == "answer_invalid"
    assert raised.value.field == "answers[1]"
    assert raised.value.message.startswith("answers[1]: ")


def test_a_question_of_the_core_in_dialect_b() -> None:
    prompt = [
        pb.ContentPart(text="Merge this?"),
        pb.ContentPart(json=json_value({"b": [1, 2.5], "a": "é"})),
        pb.ContentPart(text=""),
    ]
    ask = pb.AskState(id="que_1", session_id="s", questions=[choice("Yes", prompt=prompt), TEXT])
    assert translation.request_to_json(ask) == {
        "id": "que_1",
        "sessionID": "s",
        "questions": [
            {
                "question": 'Merge this?\n{"a":"é","b":[1,2.5]}\n',
                "header": "",
                "options": [{"label": "Yes", "description": ""}],
                "multiple": False,
                "custom": False,
            },
            {"question": "", "header": "", "options": [], "multiple": False, "custom": True},
        ],
    }


def test_a_question_of_dialect_b_in_the_core() -> None:
    data: list[Any] = [
        {"question": "Which?", "header": "", "options": [{"label": "A"}, {"label": "B", "description": "b"}]}
    ]
    question = translation.questions_from_json(data)[0]
    assert question == pb.Question(
        prompt=[pb.ContentPart(text="Which?")],
        choice=pb.ChoiceQuestion(
            allow_custom=True,
            options=[
                pb.ChoiceOption(id="0", label="A", value=json_value("A")),
                pb.ChoiceOption(id="1", label="B", description="b", value=json_value("B")),
            ],
        ),
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"question": " \u2003"}, "questions[0].question"),
        ({"question": 1}, "questions[0].question"),
        ({"header": None}, "questions[0].header"),
        ({"options": {}}, "questions[0].options"),
        ({"options": [{"label": "A"}, {"label": "A"}]}, "questions[0].options[1].label"),
        ({"options": [{"label": ""}]}, "questions[0].options[0].label"),
        ({"options": [{"label": "A", "value": 1}]}, "questions[0].options[0].value"),
        ({"options": [], "custom": False}, "questions[0].options"),
        ({"options": [], "multiple": True}, "questions[0].options"),
        ({"multiple": "true"}, "questions[0].multiple"),
        ({"custom": 1}, "questions[0].custom"),
        ({"title": "x"}, "questions[0].title"),
    ],
)
def test_what_dialect_b_does_not_ask(change: dict[str, Any], field: str) -> None:
    data: Any = {"question": "Which?", "options": [{"label": "A"}]} | change
    with pytest.raises(RefusalError) as raised:
        translation.questions_from_json([data])
    assert (raised.value.code, raised.value.field) == ("invalid_arguments", field)


LABEL = st.text(min_size=1, max_size=5).filter(lambda text: text.strip() != "")
B_QUESTIONS = st.lists(
    st.fixed_dictionaries(
        {
            "question": LABEL,
            "header": st.just("") | LABEL,
            "options": st.lists(
                st.fixed_dictionaries({"label": LABEL, "description": st.text(max_size=5)}),
                min_size=1, max_size=4, unique_by=lambda option: option["label"],
            ),
            "multiple": st.booleans(),
            "custom": st.booleans(),
        }
    ),
    max_size=3,
)  # fmt: skip


@examples(60)
@given(B_QUESTIONS)
def test_what_was_asked_through_b_reads_back_unchanged(questions: list[dict[str, Any]]) -> None:
    ask = pb.AskState(questions=translation.questions_from_json(questions))
    assert translation.request_to_json(ask)["questions"] == questions


@examples(60)
@given(B_QUESTIONS, st.data())
def test_labels_come_back_from_the_submissions_that_they_mean(
    questions: list[dict[str, Any]], data: st.DataObject
) -> None:
    asked = translation.questions_from_json(questions)
    answers: list[Any] = [[data.draw(st.sampled_from(question["options"]))["label"]] for question in questions]
    submissions = translation.submissions(answers, asked)
    assert translation.replies(submissions, asked) == answers


def test_an_option_that_shares_its_label_is_replied_with_by_its_id() -> None:
    question = choice("Tea", "Tea", "Milk", custom=True, multiple=True)
    submission = chosen("1", "2", custom="Cocoa")
    assert translation.replies([submission], [question]) == [["1", "Milk", "Cocoa"]]
    assert translation.submissions([["1", "Milk", "Cocoa"]], [question]) == [submission]
