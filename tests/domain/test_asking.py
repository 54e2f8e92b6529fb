"""Storing an ask, and asking again with the same request id (CONTRACT sections 2 and 3)."""

from dataclasses import replace
from functools import partial

import pytest
from tests.domain.asking import ASKER, CHOICE, CREATED_AT, KEY, answering, asked, asking, draft, resolved
from tests.domain.samples import choice_question, json_part, option, parsed, refusal, text_question

from askd.domain.asks import Ask, AskDraft, AskStatus, ToolCall, asked_before, create
from askd.domain.errors import AskdError, Code, content
from askd.domain.questions import decode_questions

WRONG = content("questions[0].title", "must not be blank")
TOOL = ToolCall(message_id="m", call_id="c")


def test_an_ask_is_stored_pending_with_all_that_was_asked() -> None:
    contents = draft(CHOICE, tool=TOOL, expires_in=60_000_000)
    ask = create(asking(contents, "r", "que_9"), contents, CREATED_AT, 5)
    assert ask == Ask(
        id="que_9",
        workspace_id="w",
        session_id="s",
        turn_id="t",
        status=AskStatus.PENDING,
        questions=tuple(parsed(CHOICE)),
        encoded_questions=ask.encoded_questions,
        created_at=CREATED_AT,
        created_revision=5,
        asked_by=KEY,
        tool=TOOL,
        request_id="r",
        expires_at=CREATED_AT + 60_000_000,
    )
    assert decode_questions(ask.encoded_questions) == ask.questions
    assert ask.as_created() == ask


def test_an_ask_may_belong_to_no_turn() -> None:
    assert asked(turn_id=None).turn_id is None


# --- the same request id ---


def asked_again(known: Ask, contents: AskDraft | AskdError) -> Ask:
    return asked_before(asking(contents, "r", "que_2"), known)


def test_the_same_request_again_is_told_the_ask_it_stored() -> None:
    known = asked(CHOICE, tool=TOOL)
    assert asked_again(known, draft(CHOICE, tool=TOOL)) is known


def test_the_same_request_again_is_told_the_ask_s_current_state() -> None:
    known = resolved(asked(), answering("yes"))
    assert asked_again(known, draft()) is known


@pytest.mark.parametrize(
    "other",
    [
        draft(session_id="other"),
        draft(turn_id="other"),
        draft(turn_id=None),
        draft(tool=TOOL),
        draft(text_question(title="T")),
        draft(text_question(), text_question()),
        draft(choice_question()),
    ],
)
def test_a_request_id_with_other_contents_is_a_conflict(other: AskDraft) -> None:
    refusal(lambda: asked_again(asked(), other), Code.REQUEST_ID_CONFLICT, "request_id")


def test_what_python_takes_for_equal_is_other_contents_where_json_differs() -> None:
    known = asked(choice_question(option(value=True)))
    other = draft(choice_question(option(value=1)))
    refusal(lambda: asked_again(known, other), Code.REQUEST_ID_CONFLICT, "request_id")


def test_one_number_in_two_spellings_is_no_difference() -> None:
    known = asked(text_question(prompt=[json_part(1)]))
    assert asked_again(known, draft(text_question(prompt=[json_part(1.0)]))) is known


def test_a_prompt_is_the_same_as_a_string_and_as_an_array() -> None:
    known = asked(text_question(prompt="Why?"))
    assert asked_again(known, draft(text_question(prompt=[{"type": "text", "text": "Why?"}]))) is known


def test_the_expiry_is_compared_as_it_was_asked_for() -> None:
    known = asked(expires_in=60_000_000)
    assert asked_again(known, draft(expires_in=60_000_000)) is known
    for other in (draft(), draft(expires_in=61_000_000)):
        refusal(partial(asked_again, known, other), Code.REQUEST_ID_CONFLICT, "request_id")
    refusal(lambda: asked_again(asked(), draft(expires_in=1_000_000)), Code.REQUEST_ID_CONFLICT, "request_id")


def test_a_known_request_id_comes_before_what_is_wrong_with_the_questions() -> None:
    refusal(lambda: asked_again(asked(), WRONG), Code.REQUEST_ID_CONFLICT, "request_id")


def test_once_the_payload_has_expired_the_request_id_alone_decides() -> None:
    erased = replace(resolved(asked(), answering("yes")), questions=(), encoded_questions="", payload_expired=True)
    assert asked_again(erased, draft(CHOICE)) is erased
    assert asked_again(erased, WRONG) is erased


def test_who_asks_is_the_verified_principal() -> None:
    assert asked().asked_by == ASKER.principal
