"""What may become of an ask, and what its retries and its losers are told (CONTRACT sections 3 and 4)."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.domain.asking import (
    ANN,
    ANSWERER,
    ASKER,
    BOB,
    CHOICE,
    KEY,
    RESOLVED_AT,
    WAYS,
    access,
    answering,
    asked,
    choosing,
    resolved,
    resolving,
)
from tests.domain.samples import refusal
from tests.domain.strategies import examples

from askd.domain.answers import ChoiceAnswer, Selection
from askd.domain.asks import (
    AnswerWith,
    Ask,
    AskStatus,
    CancelReason,
    RejectWith,
    Resolution,
    ResolveAsk,
    Withdraw,
    resolve,
    visible,
)
from askd.domain.errors import AskdError, Code, invalid
from askd.domain.principals import Access, Role

WRONG = invalid("reason", "too long")
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
endings = pytest.mark.parametrize("ending", WAYS.values(), ids=WAYS)


def refused(
    ask: Ask | None, resolution: Resolution, code: Code, field: str = "", by: Access | None = None
) -> AskdError:
    return refusal(lambda: resolved(ask, resolution, by), code, field)


# --- outcomes ---


def test_an_answer_resolves_a_pending_ask() -> None:
    ask = resolved(asked(CHOICE), answering(choosing("a", custom="mine")))
    assert ask.status is AskStatus.ANSWERED
    assert ask.answers == (ChoiceAnswer(selected=(Selection(id="a", value=1),), custom="mine"),)
    assert ask.encoded_answers == '[{"custom":"mine","selected":[{"id":"a","value":1}]}]'
    assert (ask.answer_id, ask.reject_reason, ask.cancel_reason) == ("answer-1", None, None)


@pytest.mark.parametrize("reason", ["no time", "", None])
def test_a_rejection_resolves_a_pending_ask(reason: str | None) -> None:
    ask = resolved(asked(), RejectWith(reason=reason))
    assert (ask.status, ask.reject_reason) == (AskStatus.REJECTED, reason)
    assert (ask.answers, ask.answer_id, ask.cancel_reason) == ((), None, None)


def test_a_withdrawal_resolves_a_pending_ask() -> None:
    ask = resolved(asked(), Withdraw())
    assert (ask.status, ask.cancel_reason) == (AskStatus.CANCELLED, CancelReason.WITHDRAWN)
    assert (ask.answers, ask.answer_id, ask.reject_reason) == ((), None, None)


@ways
def test_a_resolution_says_when_in_which_revision_and_by_whom(way: Resolution) -> None:
    before = asked()
    ask = resolve(resolving(way, id="cmd_nine"), before, RESOLVED_AT, 7)
    assert (ask.resolved_at, ask.resolved_revision, ask.resolution_id) == (RESOLVED_AT, 7, "cmd_nine")
    assert ask.resolved_by == (KEY if isinstance(way, Withdraw) else ANN)
    assert ask.as_created() == before


# --- the order of the checks ---


@ways
def test_first_the_ask_must_exist_and_be_visible(way: Resolution) -> None:
    nobody = Access(principal=ANN, workspace_id="w", roles={})
    error = refused(None, way, Code.NOT_FOUND, by=nobody)
    assert error.resource == ("ask", "que_1")
    refused(asked(), way, Code.NOT_FOUND, by=nobody)
    refused(asked(), way, Code.NOT_FOUND, by=access(Role.ADMIN, workspace_id="other"))
    refused(asked(), way, Code.NOT_FOUND, by=access(*Role, session_id="other"))


@ways
@pytest.mark.parametrize(("session_id", "turn_id"), [("other", ""), ("", "other"), ("s", "other"), ("other", "t")])
def test_an_ask_of_another_session_or_turn_than_named_is_not_found(
    way: Resolution, session_id: str, turn_id: str
) -> None:
    command = resolving(way, session_id=session_id, turn_id=turn_id)
    refusal(lambda: resolve(command, asked(), RESOLVED_AT, 7), Code.NOT_FOUND, "")


@ways
@pytest.mark.parametrize(("session_id", "turn_id"), [("", ""), ("s", ""), ("", "t"), ("s", "t")])
def test_session_and_turn_may_be_named(way: Resolution, session_id: str, turn_id: str) -> None:
    assert resolved(asked(), way, session_id=session_id, turn_id=turn_id).status is not AskStatus.PENDING


def test_an_ask_without_a_turn_is_of_no_named_turn() -> None:
    ask = asked(turn_id=None)
    assert visible(ask, "que_1", ASKER, "s") is ask
    refusal(lambda: visible(ask, "que_1", ASKER, "s", "t"), Code.NOT_FOUND, "")


@pytest.mark.parametrize(
    ("resolution", "roles"),
    [
        (answering("yes"), {Role.ASKER, Role.VIEWER}),
        (RejectWith(reason=None), {Role.ASKER, Role.VIEWER}),
        (Withdraw(), {Role.ANSWERER, Role.VIEWER}),
    ],
)
def test_then_the_caller_needs_the_role(resolution: Resolution, roles: set[Role]) -> None:
    for ask in (asked(), resolved(asked(), answering("yes"))):
        refused(ask, resolution, Code.PERMISSION_DENIED, by=access(*roles))


def test_then_a_known_answer_id_is_looked_at() -> None:
    answered = resolved(asked(), answering("yes"))
    refused(answered, answering("no"), Code.ANSWER_ID_CONFLICT, "answer_id")
    assert resolved(answered, answering("yes")) is answered


@endings
def test_then_the_ask_must_be_pending(ending: Resolution) -> None:
    ask = resolved(asked(), ending)
    refused(ask, answering("not", "two", answer_id="another"), Code.ASK_ALREADY_RESOLVED)
    refused(ask, AnswerWith(answer_id="another", submissions=WRONG), Code.ASK_ALREADY_RESOLVED)
    refused(ask, RejectWith(reason=WRONG), Code.ASK_ALREADY_RESOLVED)


def test_then_what_is_said_must_be_valid() -> None:
    refused(asked(), answering("one", "two"), Code.ANSWER_INVALID, "answers")
    refused(asked(CHOICE), answering(choosing("x")), Code.ANSWER_INVALID, "answers[0].selectedIds")
    refused(asked(), AnswerWith(answer_id="answer-1", submissions=WRONG), WRONG.code, "reason")
    refused(asked(), RejectWith(reason=WRONG), WRONG.code, "reason")
    refused(asked(), AnswerWith(answer_id=WRONG, submissions=("yes",)), WRONG.code, "reason")


def test_a_role_in_the_ask_s_session_is_enough() -> None:
    answerer = access(Role.ANSWERER, Role.VIEWER, session_id="s")
    assert resolved(asked(), answering("yes"), answerer).status is AskStatus.ANSWERED
    refused(asked(), Withdraw(), Code.PERMISSION_DENIED, by=answerer)


def test_roles_of_the_session_and_of_all_add_up() -> None:
    both = Access(principal=ANN, workspace_id="w", roles={"": frozenset({Role.ASKER}), "s": frozenset({Role.ANSWERER})})
    assert resolved(asked(), answering("yes"), both).status is AskStatus.ANSWERED
    refused(asked(session_id="r"), answering("yes"), Code.PERMISSION_DENIED, by=both)


# --- retries and conflicts ---


def test_a_refused_answer_changes_nothing_and_leaves_its_answer_id_free() -> None:
    ask = asked(CHOICE)
    before = replace(ask)
    refused(ask, answering(choosing("x")), Code.ANSWER_INVALID, "answers[0].selectedIds")
    assert ask == before
    assert resolved(ask, answering(choosing("a"))).status is AskStatus.ANSWERED


def test_the_same_answer_again_is_told_the_first_outcome_however_often() -> None:
    answered = resolved(asked(), answering("yes"))
    for _ in range(3):
        again = resolve(resolving(answering("yes")), answered, RESOLVED_AT + 99, 99)
        assert again is answered


def test_the_order_of_ids_in_a_selection_is_no_difference() -> None:
    answered = resolved(asked(CHOICE), answering(choosing("a", "b")))
    assert resolved(answered, answering(choosing("b", "a"))) is answered


@pytest.mark.parametrize(
    "other", [choosing("b"), choosing("a", "b"), choosing("a", custom="mine"), choosing("x"), choosing(), "a"]
)
def test_an_answer_id_with_other_submissions_is_a_conflict(other: object) -> None:
    answered = resolved(asked(CHOICE), answering(choosing("a")))
    other_answer = AnswerWith(answer_id="answer-1", submissions=(other,))  # type: ignore[arg-type]
    refused(answered, other_answer, Code.ANSWER_ID_CONFLICT, "answer_id")
    malformed = AnswerWith(answer_id="answer-1", submissions=WRONG)
    refused(answered, malformed, Code.ANSWER_ID_CONFLICT, "answer_id")


def test_an_answer_id_of_another_principal_is_a_conflict() -> None:
    answered = resolved(asked(), answering("yes"))
    other = access(Role.ANSWERER, principal=BOB)
    refused(answered, answering("yes"), Code.ANSWER_ID_CONFLICT, "answer_id", by=other)


def test_once_the_payload_has_expired_the_answer_id_alone_decides() -> None:
    answered = resolved(asked(), answering("yes"))
    erased = replace(answered, questions=(), answers=(), encoded_questions="", encoded_answers="", payload_expired=True)
    assert resolved(erased, answering("no")) is erased
    assert resolved(erased, answering("yes"), access(Role.ANSWERER, principal=BOB)) is erased
    refused(erased, answering("yes", answer_id="another"), Code.ASK_ALREADY_RESOLVED)


@pytest.mark.parametrize("ending", [RejectWith(reason=None), Withdraw()])
def test_an_answer_id_that_was_never_accepted_is_unknown(ending: Resolution) -> None:
    ask = resolved(asked(), ending)
    refused(ask, answering("yes"), Code.ASK_ALREADY_RESOLVED)


@ways
def test_a_command_that_is_run_again_finds_itself_done(way: Resolution) -> None:
    command = resolving(way)
    ask = resolve(command, asked(), RESOLVED_AT, 7)
    assert resolve(command, ask, RESOLVED_AT + 1, 8) is ask


@endings
@ways
def test_nothing_leaves_a_resolved_ask(ending: Resolution, way: Resolution) -> None:
    ask = resolved(asked(), ending)
    other = answering("yes", answer_id="another") if isinstance(way, AnswerWith) else way
    error = refused(ask, other, Code.ASK_ALREADY_RESOLVED)
    assert ask.status.value in error.message


@pytest.mark.parametrize(
    ("ending", "status", "principal"),
    [
        (answering("yes"), "answered", "user:ann"),
        (RejectWith(reason=None), "rejected", "user:ann"),
        (Withdraw(), "cancelled", "key:key_1"),
    ],
)
def test_a_loser_is_told_the_winner_s_outcome(ending: Resolution, status: str, principal: str) -> None:
    error = refused(resolved(asked(), ending), RejectWith(reason="late"), Code.ASK_ALREADY_RESOLVED)
    assert error.metadata == {
        "status": status,
        "resolved_at": "2023-11-14T22:14:20.500000Z",
        "resolved_revision": "7",
        "resolved_by": principal,
    }


def test_a_loser_to_no_principal_is_told_none() -> None:
    expired = replace(resolved(asked(), Withdraw()), resolved_by=None, cancel_reason=CancelReason.EXPIRED)
    error = refused(expired, answering("late"), Code.ASK_ALREADY_RESOLVED)
    assert error.metadata["resolved_by"] == ""


_contenders = st.builds(
    resolving,
    st.one_of(
        st.builds(answering, st.sampled_from(["yes", "no"]), answer_id=st.sampled_from(["answer-1", "answer-2"])),
        st.builds(answering),
        st.builds(RejectWith, reason=st.none() | st.just("no time")),
        st.just(Withdraw()),
    ),
    st.sampled_from([access(*Role), access(*Role, principal=BOB), ANSWERER, ASKER]),
    id=st.sampled_from(["cmd_1", "cmd_2", "cmd_3"]),
)


@given(st.lists(_contenders, max_size=8))
@examples(150)
def test_of_any_commands_at_most_one_changes_an_ask(commands: list[ResolveAsk]) -> None:
    outcomes = [asked()]
    for revision, command in enumerate(commands, start=2):
        try:
            outcomes.append(resolve(command, outcomes[-1], RESOLVED_AT, revision))
        except AskdError:
            continue
    changes = [after for before, after in pairwise(outcomes) if after is not before]
    assert len(changes) <= 1
    assert all(change.status is not AskStatus.PENDING for change in changes)
    assert outcomes[-1].as_created() == outcomes[0]
