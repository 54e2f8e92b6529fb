"""How asks end without an answerer, and what is told of all their changes (CONTRACT sections 4 and 5)."""

import pytest
from tests.domain.asking import CREATED_AT, KEY, RESOLVED_AT, WAYS, answering, asked, resolved, resolving
from tests.domain.samples import text_question

from askd.domain.asks import (
    AskFilter,
    AskStatus,
    CancelAsks,
    CancelReason,
    EventType,
    RejectWith,
    Resolution,
    Withdraw,
    cancel,
    created,
    expire,
    is_due,
    pending,
    resolve,
    timestamp,
)
from askd.domain.asks import resolved as resolution_event
from askd.domain.principals import Principal

SECOND = 1_000_000
ways = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


def cancelling(reason: CancelReason, by: Principal | None = None) -> CancelAsks:
    return CancelAsks(workspace_id="w", id="cmd_end", ask_ids=["que_1"], reason=reason, by=by)


def test_an_ask_is_due_from_its_time_on_and_only_while_pending() -> None:
    ask = asked(expires_in=60 * SECOND)
    assert ask.expires_at == CREATED_AT + 60 * SECOND
    assert not is_due(ask, CREATED_AT + 60 * SECOND - 1)
    assert is_due(ask, CREATED_AT + 60 * SECOND)
    assert not is_due(asked(), CREATED_AT + 60 * SECOND)
    assert not is_due(resolved(ask, answering("yes")), CREATED_AT + 60 * SECOND)


def test_an_expiry_is_a_cancellation_by_no_principal_at_the_time_it_happened() -> None:
    ask = asked(expires_in=SECOND)
    expired = expire(ask, RESOLVED_AT, 7, "cmd_9")
    assert (expired.status, expired.cancel_reason) == (AskStatus.CANCELLED, CancelReason.EXPIRED)
    assert (expired.resolved_at, expired.resolved_revision, expired.resolved_by) == (RESOLVED_AT, 7, None)
    assert expired.expires_at == ask.expires_at
    assert expired.as_created() == ask


@pytest.mark.parametrize("reason", [CancelReason.INTERRUPTED, CancelReason.TURN_ENDED, CancelReason.SESSION_ENDED])
def test_an_end_cancels_a_pending_ask_with_its_reason(reason: CancelReason) -> None:
    ask = cancel(asked(), cancelling(reason, KEY), RESOLVED_AT, 7)
    assert (ask.status, ask.cancel_reason, ask.resolved_by) == (AskStatus.CANCELLED, reason, KEY)
    assert (ask.resolved_at, ask.resolved_revision, ask.resolution_id) == (RESOLVED_AT, 7, "cmd_end")


def test_an_expiry_cancels_only_what_is_due() -> None:
    ask = asked(expires_in=SECOND)
    expiry = cancelling(CancelReason.EXPIRED)
    assert cancel(ask, expiry, CREATED_AT + SECOND - 1, 7) is ask
    assert cancel(ask, expiry, CREATED_AT + SECOND, 7).cancel_reason is CancelReason.EXPIRED


@ways
@pytest.mark.parametrize("reason", [CancelReason.EXPIRED, CancelReason.TURN_ENDED, CancelReason.SESSION_ENDED])
def test_no_end_changes_a_resolved_ask(way: Resolution, reason: CancelReason) -> None:
    ask = resolved(asked(expires_in=SECOND), way)
    assert cancel(ask, cancelling(reason), RESOLVED_AT + SECOND, 8) is ask


@ways
def test_no_ask_is_resolved_before_it_was_asked(way: Resolution) -> None:
    assert resolve(resolving(way), asked(), CREATED_AT - SECOND, 7).resolved_at == CREATED_AT


# --- events ---


def test_asking_is_an_event_of_the_ask_as_it_was_asked() -> None:
    ask = asked(revision=3)
    for now in (ask, resolved(ask, answering("yes"))):
        event = created(now)
        assert (event.type, event.revision, event.ask) == (EventType.ASKED, 3, ask)


def test_a_snapshot_shows_what_was_pending_as_it_was_asked() -> None:
    ask = asked(revision=3)
    for now in (ask, resolved(ask, RejectWith(reason="no"))):
        event = pending(now)
        assert (event.type, event.revision, event.ask) == (EventType.PENDING, 3, ask)


@pytest.mark.parametrize(
    ("ending", "kind"),
    [
        (answering("yes"), EventType.ANSWERED),
        (RejectWith(reason=None), EventType.REJECTED),
        (Withdraw(), EventType.CANCELLED),
    ],
)
def test_a_resolution_is_an_event_of_its_kind_and_revision(ending: Resolution, kind: EventType) -> None:
    ask = resolved(asked(), ending)
    event = resolution_event(ask)
    assert (event.type, event.revision, event.ask) == (kind, 7, ask)


# --- filters and times ---


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (AskFilter(workspace_id="w"), True),
        (AskFilter(workspace_id="w", session_id="s", turn_id="t"), True),
        (AskFilter(workspace_id="w", session_id="other"), False),
        (AskFilter(workspace_id="w", turn_id="other"), False),
        (AskFilter(workspace_id="w", scope=frozenset({"r", "s"})), True),
        (AskFilter(workspace_id="w", scope=frozenset({"r"})), False),
        (AskFilter(workspace_id="w", session_id="s", scope=frozenset()), False),
        (AskFilter(workspace_id="w", statuses=frozenset({AskStatus.PENDING, AskStatus.ANSWERED})), True),
        (AskFilter(workspace_id="w", statuses=frozenset({AskStatus.ANSWERED})), False),
    ],
)
def test_a_filter_is_by_session_turn_status_and_what_the_caller_sees(chosen: AskFilter, expected: bool) -> None:
    assert chosen.matches(asked(text_question())) is expected


def test_a_filter_by_status_looks_at_the_ask_as_of_the_event() -> None:
    answered = resolved(asked(), answering("yes"))
    only_pending = AskFilter(workspace_id="w", statuses=frozenset({AskStatus.PENDING}))
    assert only_pending.matches(created(answered).ask)
    assert not only_pending.matches(resolution_event(answered).ask)


def test_times_are_rfc_3339_in_utc_to_the_microsecond() -> None:
    assert timestamp(CREATED_AT) == "2023-11-14T22:13:20Z"
    assert timestamp(CREATED_AT + 1) == "2023-11-14T22:13:20.000001Z"
    assert timestamp(0) == "1970-01-01T00:00:00Z"
