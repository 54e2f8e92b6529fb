"""Asks and what may become of them: the state machine (CONTRACT sections 3 and 4)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeAlias, TypeVar

from askd.domain.answers import Answer, Submission, resolve_all
from askd.domain.errors import AskdError, Code, not_found
from askd.domain.principals import Access, Principal, Role
from askd.domain.questions import Question, QuestionSet
from askd.domain.values import value

_T = TypeVar("_T")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class AskStatus(StrEnum):
    """The state of an ask; see AskStatus in the protos."""

    PENDING = "pending"
    ANSWERED = "answered"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


class CancelReason(StrEnum):
    """Why an ask was cancelled; see CancelReason in the protos."""

    WITHDRAWN = "withdrawn"
    INTERRUPTED = "interrupted"
    TURN_ENDED = "turn_ended"
    SESSION_ENDED = "session_ended"
    EXPIRED = "expired"


class EventType(StrEnum):
    """The kind of an event; see AskEventType in the protos."""

    PENDING = "pending"
    ASKED = "asked"
    ANSWERED = "answered"
    REJECTED = "rejected"
    CANCELLED = "cancelled"


@value
class ToolCall:
    """The tool call that asks."""

    message_id: str
    call_id: str


@value
class Ask:
    """An ask as of one revision. Times are UTC microseconds since 1970."""

    id: str
    workspace_id: str
    session_id: str
    turn_id: str | None
    status: AskStatus
    questions: tuple[Question, ...]
    created_at: int
    created_revision: int
    asked_by: Principal
    tool: ToolCall | None = None
    request_id: str | None = None
    expires_at: int | None = None
    resolved_at: int | None = None
    resolved_revision: int | None = None
    resolved_by: Principal | None = None
    #: The server-made id of the command that resolved the ask: tells a retry of that command that it was done.
    resolution_id: str | None = None
    answer_id: str | None = None
    answers: tuple[Answer, ...] = ()
    reject_reason: str | None = None
    cancel_reason: CancelReason | None = None
    #: `questions` and `answers` as the canonical JSON that is stored.
    encoded_questions: str = ""
    encoded_answers: str = ""
    #: Whether questions, answers and reject reason have been erased.
    payload_expired: bool = False

    def as_created(self) -> "Ask":
        """The ask as it was when it was created."""
        if self.status is AskStatus.PENDING:
            return self
        return replace(
            self, status=AskStatus.PENDING, resolved_at=None, resolved_revision=None, resolved_by=None,
            resolution_id=None, answer_id=None, answers=(), encoded_answers="", reject_reason=None, cancel_reason=None,
        )  # fmt: skip


@value
class AskEvent:
    """One change of an ask, or one ask of a snapshot."""

    type: EventType
    revision: int
    ask: Ask


def created(ask: Ask) -> AskEvent:
    """The event of an ask's creation."""
    return AskEvent(type=EventType.ASKED, revision=ask.created_revision, ask=ask.as_created())


def pending(ask: Ask) -> AskEvent:
    """The event of an ask in a snapshot of what is pending."""
    return AskEvent(type=EventType.PENDING, revision=ask.created_revision, ask=ask.as_created())


def resolved(ask: Ask) -> AskEvent:
    """The event of an ask's resolution."""
    assert ask.resolved_revision is not None, "only resolved asks have this event"  # noqa: S101
    return AskEvent(type=EventType(ask.status.value), revision=ask.resolved_revision, ask=ask)


@value
class AskFilter:
    """Which asks of a workspace a list or a watch is about; empty fields mean all."""

    workspace_id: str
    session_id: str = ""
    turn_id: str = ""
    statuses: frozenset[AskStatus] = frozenset()
    #: The sessions that the caller sees; None: all.
    scope: frozenset[str] | None = None

    def matches(self, ask: Ask) -> bool:
        """Whether the ask, as it is, is of the session and turn and in one of the states."""
        return (
            self.session_id in ("", ask.session_id)
            and (self.scope is None or ask.session_id in self.scope)
            and self.turn_id in ("", ask.turn_id)
            and (not self.statuses or ask.status in self.statuses)
        )


# --- commands ---


@value
class AskDraft:
    """A checked request to ask."""

    session_id: str
    turn_id: str | None
    questions: QuestionSet
    tool: ToolCall | None
    #: Microseconds after which the ask expires.
    expires_in: int | None = None


@value
class CreateAsk:
    """The command to store an ask. `draft` may be what is wrong with it: a known request id is looked at first."""

    access: Access
    ask_id: str
    request_id: str | None
    draft: AskDraft | AskdError


@value
class AnswerWith:
    """Resolve by answering. `answer_id` may be what is wrong with it: the ask's existence is looked at first."""

    answer_id: str | AskdError
    submissions: Sequence[Submission] | AskdError


@value
class RejectWith:
    """Resolve by rejecting. `reason` may be what is wrong with it."""

    reason: str | AskdError | None


@value
class Withdraw:
    """Resolve by taking the ask back."""


Resolution: TypeAlias = AnswerWith | RejectWith | Withdraw
_ROLE = {AnswerWith: Role.ANSWERER, RejectWith: Role.ANSWERER, Withdraw: Role.ASKER}


@value
class ResolveAsk:
    """The command to resolve an ask. Session and turn, where given, must be the ask's."""

    access: Access
    id: str
    ask_id: str
    session_id: str
    turn_id: str
    resolution: Resolution


@value
class CancelAsks:
    """The command to cancel asks of one workspace whose time, turn or session is over; those that are resolved already
    stay as they are."""

    workspace_id: str
    id: str
    ask_ids: Sequence[str]
    reason: CancelReason
    by: Principal | None


# --- decisions ---


def visible(ask: Ask | None, ask_id: str, access: Access, session_id: str = "", turn_id: str = "") -> Ask:
    """The ask, if there is one that the caller can see and that is of the named session and turn, else not_found."""
    if (
        ask is None
        or ask.workspace_id != access.workspace_id
        or not access.sees(ask.session_id)
        or (session_id and session_id != ask.session_id)
        or (turn_id and turn_id != ask.turn_id)
    ):
        raise not_found("ask", ask_id)
    return ask


def asked_before(command: CreateAsk, known: Ask) -> Ask:
    """The ask that a request id stored before, if the command asks the same."""
    same = known.payload_expired or (
        not isinstance(command.draft, AskdError)
        and _contents(command.draft, known.created_at) == (
            known.session_id, known.turn_id, known.tool, known.expires_at, known.encoded_questions,
        )
    )  # fmt: skip
    if not same:
        raise AskdError(Code.REQUEST_ID_CONFLICT, "the request id was used with other contents", field="request_id")
    return known


def _contents(draft: AskDraft, created_at: int) -> tuple[str, str | None, ToolCall | None, int | None, str]:
    # The questions encoded, because in Python true equals 1.
    return draft.session_id, draft.turn_id, draft.tool, _expires_at(draft, created_at), draft.questions.encoded


def _expires_at(draft: AskDraft, created_at: int) -> int | None:
    return None if draft.expires_in is None else created_at + draft.expires_in


def create(command: CreateAsk, draft: AskDraft, now: int, revision: int) -> Ask:
    """The ask that a command stores."""
    return Ask(
        id=command.ask_id,
        workspace_id=command.access.workspace_id,
        session_id=draft.session_id,
        turn_id=draft.turn_id,
        status=AskStatus.PENDING,
        questions=draft.questions.questions,
        created_at=now,
        created_revision=revision,
        asked_by=command.access.principal,
        tool=draft.tool,
        request_id=command.request_id,
        expires_at=_expires_at(draft, now),
        encoded_questions=draft.questions.encoded,
    )


def is_due(ask: Ask, now: int) -> bool:
    """Whether a pending ask is past its expiry."""
    return ask.status is AskStatus.PENDING and ask.expires_at is not None and ask.expires_at <= now


def cancel(ask: Ask, command: CancelAsks, now: int, revision: int) -> Ask:
    """The ask as cancelled for what is over, or the same ask where it is resolved or not yet due."""
    if ask.status is not AskStatus.PENDING or (command.reason is CancelReason.EXPIRED and not is_due(ask, now)):
        return ask
    outcome = replace(ask, status=AskStatus.CANCELLED, cancel_reason=command.reason)
    return _resolved(outcome, now, revision, command.by, command.id)


def expire(ask: Ask, now: int, revision: int, command_id: str) -> Ask:
    """A due ask as cancelled for its expiry, which no principal did."""
    outcome = replace(ask, status=AskStatus.CANCELLED, cancel_reason=CancelReason.EXPIRED)
    return _resolved(outcome, now, revision, None, command_id)


def resolve(command: ResolveAsk, ask: Ask | None, now: int, revision: int) -> Ask:
    """The resolved ask, or the same ask again for a retry. The checks come in the contract's order (section 3)."""
    ask = visible(ask, command.ask_id, command.access, command.session_id, command.turn_id)
    command.access.require(_ROLE[type(command.resolution)], ask.session_id)
    if ask.resolution_id == command.id or _answered_again(command, ask):
        return ask
    if ask.status is not AskStatus.PENDING:
        raise already_resolved(ask)
    outcome = _outcome(command.resolution, ask)
    return _resolved(outcome, now, revision, command.access.principal, command.id)


def _resolved(ask: Ask, now: int, revision: int, by: Principal | None, command_id: str) -> Ask:
    at = max(now, ask.created_at)  # the clock may have stepped back
    return replace(ask, resolved_at=at, resolved_revision=revision, resolved_by=by, resolution_id=command_id)


def _answered_again(command: ResolveAsk, ask: Ask) -> bool:
    if not isinstance(command.resolution, AnswerWith):
        return False
    if isinstance(command.resolution.answer_id, AskdError):
        raise command.resolution.answer_id
    if ask.answer_id != command.resolution.answer_id:
        return False
    if ask.payload_expired:
        return True
    if ask.resolved_by != command.access.principal or not _same_answers(command.resolution, ask):
        reason = "the answer id was used with other submissions or by another principal"
        raise AskdError(Code.ANSWER_ID_CONFLICT, reason, field="answer_id")
    return True


def _same_answers(resolution: AnswerWith, ask: Ask) -> bool:
    """Whether submissions resolve to the stored answers, so that the order of ids in a selection does not matter."""
    try:
        return resolve_all(ask.questions, _unless_wrong(resolution.submissions)).encoded == ask.encoded_answers
    except AskdError:
        return False


def _outcome(resolution: Resolution, ask: Ask) -> Ask:
    match resolution:
        case AnswerWith(answer_id=str() as answer_id, submissions=submissions):
            result = resolve_all(ask.questions, _unless_wrong(submissions))
            return replace(
                ask,
                status=AskStatus.ANSWERED,
                answers=result.answers,
                encoded_answers=result.encoded,
                answer_id=answer_id,
            )
        case RejectWith(reason=reason):
            return replace(ask, status=AskStatus.REJECTED, reject_reason=_unless_wrong(reason))
    return replace(ask, status=AskStatus.CANCELLED, cancel_reason=CancelReason.WITHDRAWN)


def _unless_wrong(value: _T | AskdError) -> _T:
    if isinstance(value, AskdError):
        raise value
    return value


def already_resolved(ask: Ask) -> AskdError:
    """Another resolution came first; the metadata says which (CONTRACT section 3)."""
    metadata = {
        "status": ask.status.value,
        "resolved_at": timestamp(ask.resolved_at or 0),
        "resolved_revision": str(ask.resolved_revision),
        "resolved_by": str(ask.resolved_by or ""),
    }
    return AskdError(Code.ASK_ALREADY_RESOLVED, f"the ask is already {ask.status}", metadata=metadata)


def timestamp(microseconds: int) -> str:
    """RFC 3339 UTC with Z of microseconds since 1970."""
    return (EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
