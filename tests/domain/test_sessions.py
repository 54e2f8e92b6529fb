"""Sessions and turns: their budget, and what their ends mean (CONTRACT sections 2 and 4)."""

from dataclasses import replace

import pytest
from tests.domain.asking import ASKER, KEY, RESOLVED_AT
from tests.domain.samples import located_refusal, refusal

from askd.domain.errors import Code
from askd.domain.sessions import (
    EndTurn,
    OpenSession,
    Session,
    Turn,
    TurnOutcome,
    charge,
    check_open,
    end_turn,
    open_session,
)

MIB = 1024 * 1024
SESSION = Session(workspace_id="w", session_id="s")
TURN = Turn(workspace_id="w", session_id="s", turn_id="t")


# --- budget ---


def test_the_questions_of_a_turn_may_encode_to_8_mib_together_and_no_more() -> None:
    turn = charge(replace(TURN, question_bytes=8 * MIB - 100), 100)
    assert turn.question_bytes == 8 * MIB
    refusal(lambda: charge(turn, 1), Code.OUTPUT_BUDGET_EXCEEDED, "", 8 * MIB + 1, 8 * MIB)


# --- what refuses further asks ---


def test_asking_is_open_where_nothing_is_known_or_nothing_has_ended() -> None:
    check_open(None, None)
    check_open(SESSION, TURN)


def test_a_session_with_a_parent_does_not_ask() -> None:
    refusal(lambda: check_open(replace(SESSION, parent_session_id="p"), None), Code.SESSION_NOT_ROOT)


def test_an_ended_session_refuses_asks_in_any_turn() -> None:
    ended = replace(SESSION, ended_at=RESOLVED_AT)
    refusal(lambda: check_open(ended, None), Code.SESSION_ENDED)
    refusal(lambda: check_open(ended, TURN), Code.SESSION_ENDED)


@pytest.mark.parametrize("outcome", TurnOutcome)
def test_an_ended_turn_refuses_asks(outcome: TurnOutcome) -> None:
    refusal(lambda: check_open(SESSION, replace(TURN, outcome=outcome)), Code.TURN_ENDED)


# --- opening ---


def opened(parent: str | None, known: Session | None) -> Session:
    return open_session(OpenSession(access=ASKER, session_id="s", parent_session_id=parent), known)


@pytest.mark.parametrize("parent", [None, "p"])
def test_a_session_is_opened_once_with_its_parent(parent: str | None) -> None:
    session = opened(parent, None)
    assert session == replace(SESSION, parent_session_id=parent)
    assert opened(parent, session) is session


@pytest.mark.parametrize(("parent", "known"), [("p", None), (None, "p"), ("p", "q")])
def test_a_session_is_not_opened_with_another_parent(parent: str | None, known: str | None) -> None:
    session = replace(SESSION, parent_session_id=known)
    located_refusal(lambda: opened(parent, session), Code.INVALID_ARGUMENTS, "parent_session_id")


# --- ending ---


def turn_ended(outcome: TurnOutcome, pending: int = 0, known: Turn | None = TURN) -> Turn:
    command = EndTurn(access=ASKER, session_id="s", turn_id="t", outcome=outcome)
    return end_turn(command, known, pending, RESOLVED_AT)


@pytest.mark.parametrize("outcome", TurnOutcome)
def test_a_turn_ends_with_the_outcome_that_it_is_told(outcome: TurnOutcome) -> None:
    turn = turn_ended(outcome)
    assert (turn.outcome, turn.ended_at, turn.ended_by, turn.unjoined_count) == (outcome, RESOLVED_AT, KEY, 0)


def test_a_turn_that_completes_while_asks_are_pending_has_failed() -> None:
    turn = turn_ended(TurnOutcome.COMPLETED, pending=3)
    assert (turn.outcome, turn.unjoined_count) == (TurnOutcome.FAILED, 3)


@pytest.mark.parametrize("outcome", [TurnOutcome.INTERRUPTED, TurnOutcome.CANCELLED, TurnOutcome.FAILED])
def test_a_turn_that_ends_otherwise_leaves_nothing_unjoined(outcome: TurnOutcome) -> None:
    turn = turn_ended(outcome, pending=3)
    assert (turn.outcome, turn.unjoined_count) == (outcome, 0)


def test_a_turn_that_has_ended_keeps_its_outcome() -> None:
    ended = turn_ended(TurnOutcome.COMPLETED, pending=3)
    assert turn_ended(TurnOutcome.INTERRUPTED, known=ended) is ended
