"""Answers by the labels of options (CONTRACT section 7, dialect B)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import examples

from askd.domain import labels
from askd.domain.answers import ChoiceSubmission, resolve_all
from askd.domain.errors import AskdError, Code
from askd.domain.questions import ChoiceQuestion, Option, TextPart, TextQuestion
from askd.v1 import ask_pb2

TEXT = TextQuestion(prompt=(TextPart(text="Which name?"),))
COMPOSED, DECOMPOSED = "Café", "Cafe\u0301"


def choice(*options: str | tuple[str, str], custom: bool = False, multiple: bool = True) -> ChoiceQuestion:
    """A choice whose options are labels, with their indexes as ids, or pairs of an id and a label."""
    pairs = [(str(index), item) if isinstance(item, str) else item for index, item in enumerate(options)]
    return ChoiceQuestion(
        prompt=(),
        options=tuple(Option(id=identifier, label=label, value=None) for identifier, label in pairs),
        allow_custom=custom,
        multiple=multiple,
    )


def selected(*ids: str, custom: str | None = None) -> ChoiceSubmission:
    return ChoiceSubmission(selected_ids=ids, custom=custom)


@pytest.mark.parametrize(
    ("question", "texts", "submission"),
    [
        (choice("Yes", "No"), ["No"], selected("1")),
        (choice("Yes", "No"), ["No", "Yes"], selected("1", "0")),
        (choice(DECOMPOSED, "Bar"), [COMPOSED], selected("0")),
        (choice(COMPOSED, DECOMPOSED), [DECOMPOSED], selected("1")),
        (choice("Same", "Same"), ["1"], selected("1")),
        (choice(COMPOSED, DECOMPOSED), ["0"], selected("0")),
        (choice("1", "x", "x"), ["1"], selected("0")),
        (choice("Yes", "No", custom=True), ["1"], selected(custom="1")),
        (choice("Yes", "No", custom=True), ["no"], selected(custom="no")),
        (choice("Yes", "No", custom=True), ["Yes", "perhaps"], selected("0", custom="perhaps")),
        (choice("", "No"), [""], selected("0")),
        (TEXT, ["Ada"], "Ada"),
        (TEXT, [""], ""),
    ],
)
def test_what_texts_mean(
    question: ChoiceQuestion | TextQuestion, texts: Sequence[str], submission: ChoiceSubmission | str
) -> None:
    assert labels.submission(texts, question, 0) == submission


@pytest.mark.parametrize(
    ("question", "texts", "reason"),
    [
        (choice("Yes", "No"), [], "at least one label is required"),
        (TEXT, [], "at least one label is required"),
        (choice("Yes", "No"), ["1"], '"1" is no option'),
        (choice("Same", "Same", custom=True), ["Same"], 'several options are called "Same"; name the option by its id'),
        (choice("Yes", "No", custom=True), ["x", "y"], "at most one answer may be in the person's own words"),
        (TEXT, ["x", "y"], "at most one answer may be in the person's own words"),
        (choice("Yes"), ["a\nb\u2028"], '"a\\nb\\u2028" is no option'),
    ],
)
def test_what_texts_cannot_mean(question: ChoiceQuestion | TextQuestion, texts: Sequence[str], reason: str) -> None:
    with pytest.raises(AskdError) as raised:
        labels.submission(texts, question, 3)
    assert (raised.value.code, raised.value.field) == (Code.ANSWER_INVALID, "answers[3]")
    assert raised.value.message == f"answers[3]: {reason}"


def test_a_long_text_is_named_by_its_beginning() -> None:
    with pytest.raises(AskdError) as raised:
        labels.submission(["x" * 10_000], choice("Yes"), 0)
    assert len(raised.value.message) < 150


def test_a_message_is_read_as_a_domain_object_is() -> None:
    options = [ask_pb2.ChoiceOption(id="a", label="Yes"), ask_pb2.ChoiceOption(id="b", label="No")]
    message = ask_pb2.ChoiceQuestion(options=options, allow_custom=True)
    assert labels.choose(["No", "perhaps"], message, 0) == selected("b", custom="perhaps")


@examples(100)
@given(st.lists(st.sampled_from(["a", "b", COMPOSED, DECOMPOSED, ""]), min_size=1, max_size=6), st.data())
def test_the_name_of_an_option_means_it_and_nothing_else(names: list[str], data: st.DataObject) -> None:
    question = choice(*[(f"id {index}", name) for index, name in enumerate(names)])
    known = labels.Labels(question.options)
    option = data.draw(st.sampled_from(question.options))
    submission = labels.submission([known.name(option)], question, 0)
    assert submission == selected(option.id)
    resolve_all([question], [submission])
