"""Questions, submissions and answers as protobuf messages and back."""

import pytest
import rfc8785
from google.protobuf import struct_pb2
from hypothesis import given
from tests.domain.samples import content_refusal, located_refusal
from tests.domain.strategies import answered, examples, questions

from askd.domain import answers as domain_answers
from askd.domain.answers import ChoiceAnswer, ChoiceSubmission, Submission, resolve_all
from askd.domain.errors import Code
from askd.domain.questions import ChoiceQuestion, Option, Question, TextQuestion, to_json
from askd.v1 import ask_pb2 as pb
from askd.wire import json as wire_json
from askd.wire.content import (
    fill_answer,
    question_from_proto,
    question_to_proto,
    submission_to_proto,
    submissions_from_proto,
)

NULL = struct_pb2.Value(null_value=struct_pb2.NULL_VALUE)


def sent(message: pb.Question) -> pb.Question:
    """A message as it arrives."""
    return pb.Question.FromString(message.SerializeToString())


@given(questions)
@examples(150)
def test_a_question_comes_back_as_it_went_in(question: Question) -> None:
    assert question_from_proto(sent(question_to_proto(question)), "question") == question


@given(questions)
@examples(150)
def test_a_question_s_message_has_the_same_json_form_as_the_question(question: Question) -> None:
    form = wire_json.question(sent(question_to_proto(question)))
    assert rfc8785.dumps(form) == rfc8785.dumps(to_json(question))


@given(answered())
@examples(100)
def test_submissions_come_back_as_they_went_in(asked: tuple[list[Question], list[Submission]]) -> None:
    messages = [submission_to_proto(submission) for submission in asked[1]]
    received = [pb.AnswerSubmission.FromString(message.SerializeToString()) for message in messages]
    assert submissions_from_proto(received) == tuple(asked[1])


@given(answered())
@examples(100)
def test_an_answer_s_message_has_the_same_json_form_as_the_answer(
    asked: tuple[list[Question], list[Submission]],
) -> None:
    for answer in resolve_all(*asked).answers:
        message = pb.Answer()
        fill_answer(message, answer)
        form = wire_json.answer(pb.Answer.FromString(message.SerializeToString()))
        assert rfc8785.dumps(form) == rfc8785.dumps(domain_answers.to_json(answer))


def test_texts_that_are_set_but_empty_differ_from_absent_ones() -> None:
    option = Option(id="a", label="", value="", description="")
    question = ChoiceQuestion(prompt=(), title="", options=(option,))
    assert question_from_proto(question_to_proto(question), "question") == question
    empty = ChoiceSubmission(custom="", notes="")
    assert submissions_from_proto([submission_to_proto(empty)]) == (empty,)
    assert submissions_from_proto([pb.AnswerSubmission(text="")]) == ("",)


def test_an_answer_without_selections_is_still_a_choice() -> None:
    message = pb.Answer()
    fill_answer(message, ChoiceAnswer())
    assert message.WhichOneof("kind") == "choice"
    fill_answer(message, "")
    assert message.WhichOneof("kind") == "text"


def test_a_question_of_no_kind_is_refused() -> None:
    message = pb.Question(title="T")
    content_refusal(lambda: question_from_proto(message, "questions[1]"), Code.INVALID_ARGUMENTS, "questions[1].type")


def test_a_text_question_takes_no_choice_along() -> None:
    assert question_from_proto(pb.Question(text=pb.TextQuestion()), "question") == TextQuestion(prompt=())


@pytest.mark.parametrize(
    ("message", "code", "field"),
    [
        (pb.Question(prompt=[pb.ContentPart()]), Code.CONTENT_KIND_UNSUPPORTED, "question.prompt[0].type"),
        (
            pb.Question(prompt=[pb.ContentPart(text=""), pb.ContentPart(json=struct_pb2.Value())]),
            Code.INVALID_ARGUMENTS,
            "question.prompt[1].value",
        ),
        (
            pb.Question(choice=pb.ChoiceQuestion(options=[pb.ChoiceOption(id="a", value=NULL), pb.ChoiceOption()])),
            Code.INVALID_ARGUMENTS,
            "question.options[1].value",
        ),
    ],
)
def test_a_part_or_value_that_is_not_set_is_refused(message: pb.Question, code: Code, field: str) -> None:
    content_refusal(lambda: question_from_proto(message, "question"), code, field)


def test_a_submission_of_no_kind_is_no_answer() -> None:
    messages = [pb.AnswerSubmission(text=""), pb.AnswerSubmission()]
    located_refusal(lambda: submissions_from_proto(messages), Code.ANSWER_INVALID, "answers[1]", "text or choice")


def test_20_levels_fit_into_a_request_as_it_is_parsed() -> None:
    """protobuf parses 100 messages deep, of which a JSON object takes three."""
    value: object = 0
    for _ in range(20):
        value = {"in": value}
    question = ChoiceQuestion(prompt=(), options=(Option(id="a", label="", value=value),))  # type: ignore[arg-type]
    state = pb.AskEvent(ask=pb.AskState(questions=[question_to_proto(question)]))
    received = pb.AskEvent.FromString(state.SerializeToString())
    assert question_from_proto(received.ask.questions[0], "question") == question
