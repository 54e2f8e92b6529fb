"""Sessions and turns in a batch: opened, used and ended (CONTRACT section 4)."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection, select
from tests.store.commands import BOB, access, answer, create, withdraw
from tests.store.databases import SECOND, Store, codes
from tests.store.histories import ids

from askd.domain.asks import Ask, AskStatus, CancelAsks, CancelReason, EventType
from askd.domain.errors import AskdError, Code
from askd.domain.sessions import Command, EndSession, EndTurn, OpenSession, Session, Turn, TurnOutcome
from askd.store.batch import Outcome
from askd.store.queries import load_unjoined
from askd.store.rows import to_session, to_turn
from askd.store.tables import sessions, turns

outcomes = pytest.mark.parametrize("outcome", list(TurnOutcome))


def end_turn(turn: str = "t", outcome: TurnOutcome = TurnOutcome.COMPLETED, session: str = "s") -> EndTurn:
    return EndTurn(access=access(), session_id=session, turn_id=turn, outcome=outcome)


def end_session(session: str = "s") -> EndSession:
    return EndSession(access=access(), session_id=session)


def open_session(session: str = "s", parent: str | None = None) -> OpenSession:
    return OpenSession(access=access(), session_id=session, parent_session_id=parent)


def cancel(asks: list[Ask], reason: CancelReason = CancelReason.TURN_ENDED) -> CancelAsks:
    return CancelAsks(workspace_id="w", id="the end's", ask_ids=ids(asks), reason=reason, by=BOB)


async def ended(store: Store, *commands: Command) -> tuple[Session | Turn, list[str]]:
    """What the last command of a batch ended, and what it left unjoined."""
    outcome = (await store.apply(*commands)).outcomes[-1]
    assert isinstance(outcome, Outcome)
    assert outcome.end is not None
    return outcome.end, list(outcome.unjoined)


def stored_turn(connection: Connection) -> list[Turn]:
    return [to_turn(row) for row in connection.execute(select(turns))]


def stored_sessions(connection: Connection) -> list[Session]:
    return [to_session(row) for row in connection.execute(select(sessions))]


# --- ends ---


@outcomes
async def test_a_turn_without_pending_asks_ends_as_it_is_told(store: Store, outcome: TurnOutcome) -> None:
    await store.ask(withdraw(await store.ask(create(turn="t"))))
    turn, unjoined = await ended(store, end_turn(outcome=outcome))
    assert isinstance(turn, Turn)
    assert (turn.outcome, turn.unjoined_count, turn.ending, unjoined) == (outcome, 0, False, [])
    assert turn.ended_at == store.now
    assert await store.read(stored_turn) == [turn]


async def test_a_turn_that_completes_while_asks_are_pending_has_failed_and_names_them(store: Store) -> None:
    asks = await store.asks(*(create(turn="t") for _ in range(3)), create(turn="u"), create(session="r", turn="t"))
    await store.ask(answer(asks[1]))
    turn, unjoined = await ended(store, end_turn())
    assert isinstance(turn, Turn)
    assert (turn.outcome, turn.unjoined_count, turn.ending) == (TurnOutcome.FAILED, 2, True)
    assert unjoined == [asks[0].id, asks[2].id]


async def test_what_a_batch_did_before_counts_at_an_end(store: Store) -> None:
    before, other = await store.asks(create(turn="t"), create(turn="t"))
    new, gone = create(turn="t"), create(turn="t")
    commands: list[Command] = [new, gone, withdraw(gone), answer(before), end_turn()]
    turn, unjoined = await ended(store, *commands)
    assert isinstance(turn, Turn)
    assert turn.unjoined_count == 2
    assert unjoined == [other.id, new.ask_id]


@outcomes
async def test_the_first_end_of_a_turn_holds(store: Store, outcome: TurnOutcome) -> None:
    await store.ask(create(turn="t"))
    first, _ = await ended(store, end_turn(outcome=TurnOutcome.INTERRUPTED))
    before = await store.rows()
    assert (await ended(store, end_turn(outcome=outcome)))[0] == first
    assert await store.rows() == before


async def test_what_never_was_may_end(store: Store) -> None:
    turn, _ = await ended(store, end_turn("never"))
    session, _ = await ended(store, end_session("never"))
    assert isinstance(turn, Turn)
    assert turn.outcome is TurnOutcome.COMPLETED
    assert isinstance(session, Session)
    assert session.ended_at == store.now
    assert (await store.refusal(create(turn="never"))).code is Code.TURN_ENDED
    assert (await store.refusal(create(session="never"))).code is Code.SESSION_ENDED


async def test_nothing_is_asked_in_what_has_ended_from_that_commit_on(store: Store) -> None:
    commands: list[Command] = [
        create(turn="t"),
        end_turn(),
        create(turn="t"),
        create(turn="u"),
        end_session(),
        create(turn="u"),
    ]
    applied = await store.apply(*commands, create(), create(session="r"))
    assert codes(applied.outcomes) == [
        "done", "done", Code.TURN_ENDED, "done", "done", Code.SESSION_ENDED, Code.SESSION_ENDED, "done",
    ]  # fmt: skip


async def test_a_replay_is_told_its_ask_though_its_turn_has_ended(store: Store) -> None:
    ask = await store.ask(create(turn="t", request_id="r"))
    await store.apply(end_turn(), end_session())
    assert await store.ask(create(turn="t", request_id="r")) == ask


async def test_an_end_announces_nothing_by_itself(store: Store) -> None:
    await store.ask(create(turn="t"))
    assert not (await store.apply(end_turn(), end_session())).events
    assert await store.revision() == 1


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (TurnOutcome.COMPLETED, CancelReason.TURN_ENDED),
        (TurnOutcome.FAILED, CancelReason.TURN_ENDED),
        (TurnOutcome.CANCELLED, CancelReason.TURN_ENDED),
        (TurnOutcome.INTERRUPTED, CancelReason.INTERRUPTED),
    ],
)
async def test_how_a_turn_ended_is_why_its_asks_are_cancelled(
    store: Store, outcome: TurnOutcome, reason: CancelReason
) -> None:
    await store.ask(create(turn="t"))
    turn, _ = await ended(store, end_turn(outcome=outcome))
    assert turn.cancel_reason is reason
    session, _ = await ended(store, end_session())
    assert session.cancel_reason is CancelReason.SESSION_ENDED


async def test_cancelling_takes_what_is_pending_and_leaves_the_rest(store: Store) -> None:
    asks = await store.asks(*(create(turn="t") for _ in range(4)), create(workspace="v"))
    answered = await store.ask(answer(asks[1]))
    applied = await store.apply(cancel(asks), answer(asks[0]))
    assert codes(applied.outcomes) == ["done", Code.ASK_ALREADY_RESOLVED]
    assert [(event.type, event.ask.id) for event in applied.events] == [
        (EventType.CANCELLED, ask.id) for ask in (asks[0], asks[2], asks[3])
    ]
    cancelled = await store.get(asks[0].id)
    assert cancelled is not None
    assert (cancelled.status, cancelled.cancel_reason) == (AskStatus.CANCELLED, CancelReason.TURN_ENDED)
    assert (cancelled.resolved_by, cancelled.resolved_at) == (BOB, store.now)
    assert await store.get(asks[1].id) == answered
    assert await store.get(asks[4].id) == asks[4]


# --- opening ---


async def test_a_session_with_a_parent_cannot_ask(store: Store) -> None:
    applied = await store.apply(open_session("child", "s"), create(session="child"), create(session="s"))
    assert codes(applied.outcomes) == ["done", Code.SESSION_NOT_ROOT, "done"]


async def test_a_session_is_opened_again_as_it_was(store: Store) -> None:
    await store.apply(open_session("child", "s"), open_session("root"), create(session="used"))
    before = await store.rows()
    again = [open_session("child", "s"), open_session("root"), open_session("used")]
    assert codes((await store.apply(*again)).outcomes) == ["done"] * 3
    otherwise = [
        open_session("child", "r"),
        open_session("child"),
        open_session("root", "s"),
        open_session("used", "s"),
    ]
    assert codes((await store.apply(*otherwise)).outcomes) == [Code.INVALID_ARGUMENTS] * 4
    assert await store.rows() == before


async def test_a_session_that_was_used_in_this_batch_is_a_root_session(store: Store) -> None:
    applied = await store.apply(create(session="s"), open_session("s", "r"))
    assert codes(applied.outcomes) == ["done", Code.INVALID_ARGUMENTS]


# --- expiry ---


async def test_a_command_that_comes_too_late_finds_the_ask_expired(store: Store) -> None:
    ask = await store.ask(create(expires_in=SECOND // 2))
    applied = await store.apply(answer(ask), withdraw(ask))
    assert codes(applied.outcomes) == [Code.ASK_ALREADY_RESOLVED] * 2
    error = applied.outcomes[0]
    assert isinstance(error, AskdError)
    assert error.metadata["status"] == "cancelled"
    (event,) = applied.events
    assert (event.type, event.revision) == (EventType.CANCELLED, 2)
    expired = await store.get(ask.id)
    assert expired == event.ask
    assert (expired.cancel_reason, expired.resolved_by) == (CancelReason.EXPIRED, None)
    assert (expired.resolved_at, expired.expires_at) == (store.now, ask.created_at + SECOND // 2)


async def test_a_command_that_comes_in_time_finds_the_ask_pending(store: Store) -> None:
    ask = await store.ask(create(expires_in=SECOND + 1))
    assert (await store.ask(answer(ask))).status is AskStatus.ANSWERED


async def test_an_answer_given_in_time_is_repeated_after_the_expiry(store: Store) -> None:
    ask = await store.ask(create(expires_in=SECOND + 1))
    answered = await store.ask(answer(ask))
    store.now += 10 * SECOND
    assert await store.ask(answer(ask)) == answered


async def test_only_what_is_due_expires(store: Store) -> None:
    due, later, never = await store.asks(create(expires_in=SECOND), create(expires_in=60 * SECOND), create())
    applied = await store.apply(cancel([due, later, never], CancelReason.EXPIRED))
    assert [event.ask.id for event in applied.events] == [due.id]


async def test_another_workspace_s_caller_expires_nothing(store: Store) -> None:
    ask = await store.ask(create(expires_in=SECOND))
    command = replace(answer(ask), access=access(workspace="v"))
    assert (await store.refusal(command)).code is Code.NOT_FOUND
    assert await store.get(ask.id) == ask


async def test_a_request_repeated_with_another_expiry_is_a_conflict(store: Store) -> None:
    ask = await store.ask(create(request_id="r", expires_in=60 * SECOND))
    assert await store.ask(create(request_id="r", expires_in=60 * SECOND)) == ask
    for expires_in in (None, 61 * SECOND):
        refused = await store.refusal(create(request_id="r", expires_in=expires_in))
        assert refused.code is Code.REQUEST_ID_CONFLICT


# --- a batch of which nobody knows whether it was committed ---


async def test_a_retried_end_changes_nothing(store: Store) -> None:
    asks = await store.asks(create(turn="t"), create(turn="t"))
    commands: list[Command] = [end_turn(), cancel(asks), end_session(), open_session("child", "s")]
    applied = await store.apply(*commands)
    before = await store.rows()
    retried = [await store.apply(command, uncertain=True) for command in commands]
    assert await store.rows() == before
    assert [codes(retry.outcomes) for retry in retried] == [["done"]] * 4
    assert [event for retry in retried for event in retry.events] == applied.events
    ends = [outcome.end for retry in retried for outcome in retry.outcomes if isinstance(outcome, Outcome)]
    assert ends == [outcome.end for outcome in applied.outcomes if isinstance(outcome, Outcome)]


async def test_a_retry_tells_again_of_the_expiry_that_it_came_upon(store: Store) -> None:
    """Watchers and waits would otherwise not hear of it before the workspace's next event."""
    ask = await store.ask(create(expires_in=1))
    command = answer(ask)
    applied = await store.apply(command)
    retry = await store.apply(command, uncertain=True)
    assert codes(retry.outcomes) == codes(applied.outcomes) == [Code.ASK_ALREADY_RESOLVED]
    assert retry.events == applied.events


# --- what was left unjoined, asked again ---


async def test_what_was_left_unjoined_is_found_again_before_and_after_it_is_cancelled(store: Store) -> None:
    asks = await store.asks(*(create(turn="t") for _ in range(4)), create(turn="u"))
    await store.asks(answer(asks[0]), withdraw(asks[1]))
    turn, unjoined = await ended(store, end_turn())
    assert isinstance(turn, Turn)
    assert await store.read(lambda connection: load_unjoined(connection, turn)) == unjoined == ids(asks[2:4])
    await store.apply(cancel([asks[2]]))
    assert await store.read(lambda connection: load_unjoined(connection, turn)) == unjoined
    await store.apply(cancel([asks[3]]))
    assert await store.read(lambda connection: load_unjoined(connection, turn)) == unjoined


async def test_of_many_unjoined_asks_the_first_thousand_are_named(store: Store) -> None:
    asks = await store.asks(*(create(turn="t") for _ in range(1003)))
    turn, unjoined = await ended(store, end_turn())
    assert isinstance(turn, Turn)
    assert turn.unjoined_count == 1003
    assert unjoined == ids(asks[:1000])
    assert await store.read(lambda connection: load_unjoined(connection, turn)) == unjoined
