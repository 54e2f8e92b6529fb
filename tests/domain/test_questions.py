"""Questions in their forms, and the largest answers to them, for questions of every shape (CONTRACT section 2)."""

import copy
import json
from typing import Any

import rfc8785
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.strategies import (
    FULL_FREE_TEXTS,
    answered,
    choice_questions,
    examples,
    question_lists,
    questions,
    submissions_for,
)

from askd.domain.answers import Answer, ChoiceSubmission, Submission, decode_answers, resolve_all
from askd.domain.answers import to_json as answer_to_json
from askd.domain.parsing import parse_question
from askd.domain.questions import ChoiceQuestion, Question, TextPart, TextQuestion, decode_questions, to_json
from askd.domain.validation import AnswerSizes, check_questions, largest_answer, validate_question
from askd.v1 import ask_pb2 as pb
from askd.wire.content import fill_answer, question_to_proto


def canonical_bytes(value: Any) -> bytes:
    return rfc8785.dumps(value)


@given(questions)
@examples(75)
def test_a_question_reads_back_from_its_json_form_unchanged(question: Question) -> None:
    assert parse_question(to_json(question), "question") == question


@given(question_lists)
@examples(75)
def test_questions_are_encoded_byte_for_byte_as_rfc8785_does(asked: list[Question]) -> None:
    checked = check_questions(asked)
    assert checked.encoded.encode() == canonical_bytes([to_json(question) for question in asked])
    assert checked.encoded_size == len(checked.encoded.encode())
    assert checked.questions == tuple(asked)


@given(question_lists)
@examples(75)
def test_stored_questions_read_back_unchanged(asked: list[Question]) -> None:
    encoded = check_questions(asked).encoded
    assert decode_questions(encoded) == tuple(asked)
    assert check_questions(decode_questions(encoded)).encoded == encoded


def test_a_null_character_survives_storing() -> None:
    question = TextQuestion(prompt=(TextPart(text="\x00"),), title="\x00")
    encoded = check_questions([question]).encoded
    assert "\x00" not in encoded
    assert decode_questions(encoded) == (question,)


@given(question_lists)
@examples(75)
def test_the_wire_size_of_questions_is_what_protobuf_takes(asked: list[Question]) -> None:
    real = pb.AskState(questions=map(question_to_proto, asked)).ByteSize()
    assert check_questions(asked).wire_size == real


@given(questions)
@examples(75)
def test_validating_a_valid_question_leaves_it_as_it_was(question: Question) -> None:
    value, before = to_json(question), copy.deepcopy(to_json(question))
    validate_question(value)
    check_questions([question])
    assert repr(value) == repr(before)
    assert repr(to_json(question)) == repr(before)


# --- answers ---


def sizes(answer: Answer) -> AnswerSizes:
    """What an answer really takes: as JSON, and in an ask's protobuf message."""
    ask = pb.AskState()
    fill_answer(ask.answers.add(), answer)
    return AnswerSizes(encoded=len(canonical_bytes(answer_to_json(answer))), wire=ask.ByteSize())


def resolved(question: Question, submission: Submission) -> Answer:
    (answer,) = resolve_all([question], [submission]).answers
    return answer


@given(st.data())
@examples(120)
def test_any_answer_to_a_choice_question_fits_its_largest_answer(data: st.DataObject) -> None:
    question = data.draw(choice_questions)
    actual = sizes(resolved(question, data.draw(submissions_for(question))))
    largest = largest_answer(question)
    assert actual.encoded <= largest.encoded
    assert actual.wire <= largest.wire


def fullest_submissions(question: ChoiceQuestion, text: str) -> list[ChoiceSubmission]:
    """The submissions of which one makes the largest answer."""
    ids = [option.id for option in question.options]
    notes = text if question.allow_notes else None
    if question.multiple:
        custom = text if question.allow_custom else None
        return [ChoiceSubmission(selected_ids=tuple(ids), custom=custom, notes=notes)]
    selecting = [ChoiceSubmission(selected_ids=(identifier,), notes=notes) for identifier in ids]
    return [*selecting, ChoiceSubmission(custom=text, notes=notes)] if question.allow_custom else selecting


@given(choice_questions)
@examples(75)
def test_some_answer_to_a_choice_question_is_as_large_as_its_largest_answer(question: ChoiceQuestion) -> None:
    largest = largest_answer(question)
    for text in FULL_FREE_TEXTS:
        actual = [sizes(resolved(question, submission)) for submission in fullest_submissions(question, text)]
        assert max(size.encoded for size in actual) == largest.encoded
        if len(text.encode()) == 8190:
            assert max(size.wire for size in actual) == largest.wire


@given(answered())
@examples(75)
def test_answers_are_encoded_byte_for_byte_as_rfc8785_does(asked: tuple[list[Question], list[Submission]]) -> None:
    result = resolve_all(*asked)
    assert result.encoded.encode() == canonical_bytes([answer_to_json(answer) for answer in result.answers])


@given(answered())
@examples(75)
def test_stored_answers_read_back_unchanged(asked: tuple[list[Question], list[Submission]]) -> None:
    result = resolve_all(*asked)
    assert decode_answers(result.encoded) == result.answers


@given(answered())
@examples(50)
def test_answering_leaves_questions_and_submissions_as_they_were(
    asked: tuple[list[Question], list[Submission]],
) -> None:
    before = repr(asked)
    resolve_all(*asked)
    assert repr(asked) == before


def test_a_null_character_in_an_answer_survives_storing() -> None:
    result = resolve_all([TextQuestion(prompt=())], ["a\x00b"])
    assert "\x00" not in result.encoded
    assert json.loads(result.encoded) == ["a\x00b"]
    assert decode_answers(result.encoded) == ("a\x00b",)
