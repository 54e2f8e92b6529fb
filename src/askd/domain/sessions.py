"""Sessions and turns, and what their ends mean for asks (CONTRACT section 4)."""

from dataclasses import replace
from enum import StrEnum
from typing import TypeAlias

from askd.domain import limits
from askd.domain.asks import CancelAsks, CancelReason, CreateAsk, ResolveAsk
from askd.domain.errors import AskdError, Code, invalid
from askd.domain.principals import Access, Principal
from askd.domain.values import value

#: How many ids of unjoined asks are told.
UNJOINED = 1000


class TurnOutcome(StrEnum):
    """How a turn ended; see TurnOutcome in the protos."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"


@value
class Session:
    """A session. Times are UTC microseconds since 1970."""

    workspace_id: str
    session_id: str
    parent_session_id: str | None = None
    ended_at: int | None = None
    ended_by: Principal | None = None
    #: Whether asks may be left that the end has yet to cancel.
    ending: bool = False

    @property
    def cancel_reason(self) -> CancelReason:
        """Why its asks are cancelled at its end."""
        return CancelReason.SESSION_ENDED


@value
class Turn:
    """A turn: what its questions encode to, and how it ended."""

    workspace_id: str
    session_id: str
    turn_id: str
    question_bytes: int = 0
    outcome: TurnOutcome | None = None
    ended_at: int | None = None
    ended_by: Principal | None = None
    #: How many asks were pending when the turn was ended as completed.
    unjoined_count: int = 0
    #: Whether asks may be left that the end has yet to cancel.
    ending: bool = False

    @property
    def cancel_reason(self) -> CancelReason:
        """Why its asks are cancelled at its end."""
        return CancelReason.INTERRUPTED if self.outcome is TurnOutcome.INTERRUPTED else CancelReason.TURN_ENDED


@value
class OpenSession:
    """The command to declare a session."""

    access: Access
    session_id: str
    parent_session_id: str | None


@value
class EndSession:
    """The command to end a session."""

    access: Access
    session_id: str


@value
class EndTurn:
    """The command to end a turn."""

    access: Access
    session_id: str
    turn_id: str
    outcome: TurnOutcome


Command: TypeAlias = CreateAsk | ResolveAsk | CancelAsks | OpenSession | EndSession | EndTurn


def workspace_of(command: Command) -> str:
    """The workspace that a command changes."""
    return command.workspace_id if isinstance(command, CancelAsks) else command.access.workspace_id


def check_open(session: Session | None, turn: Turn | None) -> None:
    """Refuse to ask where a session is no root session, or where the session or the turn has ended."""
    if session is not None and session.parent_session_id is not None:
        raise AskdError(Code.SESSION_NOT_ROOT, "the session has a parent; only root sessions ask")
    if session is not None and session.ended_at is not None:
        raise AskdError(Code.SESSION_ENDED, "the session has ended")
    if turn is not None and turn.outcome is not None:
        raise AskdError(Code.TURN_ENDED, "the turn has ended")


def charge(turn: Turn, question_bytes: int) -> Turn:
    """The turn with more questions, within its budget."""
    total = turn.question_bytes + question_bytes
    if total > limits.TURN_QUESTIONS:
        reason = f"the questions of the turn come to {total} bytes of JSON, the limit is {limits.TURN_QUESTIONS}"
        raise AskdError(Code.OUTPUT_BUDGET_EXCEEDED, reason)
    return replace(turn, question_bytes=total)


def open_session(command: OpenSession, known: Session | None) -> Session:
    """The declared session, or the known one where it was declared or used so before."""
    if known is not None and known.parent_session_id != command.parent_session_id:
        raise invalid("parent_session_id", "the session was used or opened with another parent, or with none")
    return known or Session(
        workspace_id=command.access.workspace_id,
        session_id=command.session_id,
        parent_session_id=command.parent_session_id,
    )


def end_session(command: EndSession, known: Session | None, pending: int, now: int) -> Session:
    """The ended session. One that never was is ended, too: an ask that comes late must not stay pending."""
    session = known or Session(workspace_id=command.access.workspace_id, session_id=command.session_id)
    if session.ended_at is not None:
        return session
    return replace(session, ended_at=now, ended_by=command.access.principal, ending=pending > 0)


def end_turn(command: EndTurn, known: Turn | None, pending: int, now: int) -> Turn:
    """The ended turn, or the known one where it had ended before. Completing it while asks are pending fails it."""
    turn = known or Turn(
        workspace_id=command.access.workspace_id, session_id=command.session_id, turn_id=command.turn_id
    )
    if turn.outcome is not None:
        return turn
    unjoined = pending if command.outcome is TurnOutcome.COMPLETED else 0
    outcome = TurnOutcome.FAILED if unjoined else command.outcome
    return replace(
        turn,
        outcome=outcome,
        ended_at=now,
        ended_by=command.access.principal,
        unjoined_count=unjoined,
        ending=pending > 0,
    )
