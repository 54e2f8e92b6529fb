"""Rows to asks and back."""

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

from askd.domain.answers import decode_answers
from askd.domain.asks import Ask, AskStatus, CancelReason, ToolCall
from askd.domain.canonical import encode
from askd.domain.principals import Principal
from askd.domain.questions import decode_questions
from askd.domain.sessions import Session, Turn, TurnOutcome

_Row = TypeVar("_Row", bound=Any)


class AskRow(NamedTuple):
    """A row of `asks`, in the order of its columns."""

    id: str
    workspace_id: str
    session_id: str
    turn_id: str | None
    status: int
    created_at: int
    created_revision: int
    asked_by: str
    tool_message_id: bytes | None
    tool_call_id: bytes | None
    request_id: bytes | None
    expires_at: int | None
    resolved_at: int | None
    resolved_revision: int | None
    resolved_by: str | None
    resolution_id: str | None
    answer_id: bytes | None
    cancel_reason: str | None
    payload_bytes: int
    payload_expired: int


class Part(IntEnum):
    """The parts of an ask's payload."""

    QUESTIONS = 1
    ANSWERS = 2
    REASON = 3


STATUS_CODES = {
    AskStatus.PENDING: 1,
    AskStatus.ANSWERED: 2,
    AskStatus.REJECTED: 3,
    AskStatus.CANCELLED: 4,
}
_STATUSES = {code: status for status, code in STATUS_CODES.items()}


def fitting(found: Sequence[_Row], limit: int, row_bytes: int = 0) -> Sequence[_Row]:
    """The first rows whose payloads, and `row_bytes` each, are within a limit together; one always is."""
    total = 0
    for index, row in enumerate(found):
        total += row.payload_bytes + row_bytes
        if total > limit and index:
            return found[:index]
    return found


def is_row_of(row: AskRow, ask: Ask) -> bool:
    """Whether an ask is as its row says: whatever else changes does so with these."""
    changed = ask.resolved_revision, ask.payload_expired
    return changed == (row.resolved_revision, bool(row.payload_expired))


def to_ask(row: AskRow, payload: Mapping[int, str]) -> Ask:
    """The ask of a row of `asks` and the parts of its payload."""
    questions = payload.get(Part.QUESTIONS, "[]")
    # By the row's state: without a snapshot, the payload may have been read after a resolution that the row was before.
    status = _STATUSES[row.status]
    answers = payload.get(Part.ANSWERS, "") if status is AskStatus.ANSWERED else ""
    reason = payload.get(Part.REASON) if status is AskStatus.REJECTED else None
    return Ask(
        id=row.id,
        workspace_id=row.workspace_id,
        session_id=row.session_id,
        turn_id=row.turn_id,
        status=status,
        questions=decode_questions(questions),
        created_at=row.created_at,
        created_revision=row.created_revision,
        asked_by=Principal.parse(row.asked_by),
        tool=_tool(row),
        request_id=_text(row.request_id),
        expires_at=row.expires_at,
        resolved_at=row.resolved_at,
        resolved_revision=row.resolved_revision,
        resolved_by=_principal(row.resolved_by),
        resolution_id=row.resolution_id,
        answer_id=_text(row.answer_id),
        answers=decode_answers(answers) if answers else (),
        reject_reason=None if reason is None else _reason(reason),
        cancel_reason=CancelReason(row.cancel_reason) if row.cancel_reason else None,
        encoded_questions=questions,
        encoded_answers=answers,
        payload_expired=bool(row.payload_expired),
    )


def _tool(row: AskRow) -> ToolCall | None:
    if row.tool_message_id is None or row.tool_call_id is None:
        return None
    return ToolCall(message_id=row.tool_message_id.decode(), call_id=row.tool_call_id.decode())


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else value.encode()


def _reason(encoded: str) -> str:
    return str(json.loads(encoded))


def created(ask: Ask) -> dict[str, Any]:
    """The row of a new ask."""
    return {
        "id": ask.id,
        "workspace_id": ask.workspace_id,
        "session_id": ask.session_id,
        "turn_id": ask.turn_id,
        "status": STATUS_CODES[ask.status],
        "created_at": ask.created_at,
        "created_revision": ask.created_revision,
        "asked_by": str(ask.asked_by),
        "tool_message_id": _bytes(ask.tool.message_id) if ask.tool else None,
        "tool_call_id": _bytes(ask.tool.call_id) if ask.tool else None,
        "request_id": _bytes(ask.request_id),
        "expires_at": ask.expires_at,
        "payload_bytes": len(ask.encoded_questions.encode()),
    }


def resolved(ask: Ask) -> dict[str, Any]:
    """The columns that a resolution sets, with the payload's growth as `added_payload_bytes`."""
    return {
        "id": ask.id,
        "status": STATUS_CODES[ask.status],
        "resolved_at": ask.resolved_at,
        "resolved_revision": ask.resolved_revision,
        "resolved_by": str(ask.resolved_by) if ask.resolved_by else None,
        "resolution_id": ask.resolution_id,
        "answer_id": _bytes(ask.answer_id),
        "cancel_reason": ask.cancel_reason.value if ask.cancel_reason else None,
        "added_payload_bytes": sum(len(part["body"].encode()) for part in resolution_parts(ask)),
    }


def question_part(ask: Ask) -> dict[str, Any]:
    """The payload row of a new ask."""
    return {"ask_id": ask.id, "part": Part.QUESTIONS, "body": ask.encoded_questions}


def resolution_parts(ask: Ask) -> list[dict[str, Any]]:
    """The payload rows that a resolution adds."""
    if ask.encoded_answers:
        return [{"ask_id": ask.id, "part": Part.ANSWERS, "body": ask.encoded_answers}]
    if ask.reject_reason is not None:
        return [{"ask_id": ask.id, "part": Part.REASON, "body": encode(ask.reject_reason)}]
    return []


def to_session(row: Sequence[Any]) -> Session:
    """The session of a row of `sessions`."""
    workspace_id, session_id, parent_session_id, ended_at, ended_by, ending = row
    return Session(
        workspace_id=workspace_id,
        session_id=session_id,
        parent_session_id=parent_session_id,
        ended_at=ended_at,
        ended_by=_principal(ended_by),
        ending=bool(ending),
    )


def to_turn(row: Sequence[Any]) -> Turn:
    """The turn of a row of `turns`."""
    workspace_id, session_id, turn_id, question_bytes, outcome, ended_at, ended_by, unjoined_count, ending = row
    return Turn(
        workspace_id=workspace_id,
        session_id=session_id,
        turn_id=turn_id,
        question_bytes=question_bytes,
        outcome=TurnOutcome(outcome) if outcome else None,
        ended_at=ended_at,
        ended_by=_principal(ended_by),
        unjoined_count=unjoined_count,
        ending=bool(ending),
    )


def _principal(text: str | None) -> Principal | None:
    return Principal.parse(text) if text else None


def session_row(session: Session) -> dict[str, Any]:
    """The row of a session."""
    return {
        "workspace_id": session.workspace_id,
        "session_id": session.session_id,
        "parent_session_id": session.parent_session_id,
        "ended_at": session.ended_at,
        "ended_by": str(session.ended_by) if session.ended_by else None,
        "ending": int(session.ending),
    }


def turn_row(turn: Turn) -> dict[str, Any]:
    """The row of a turn."""
    return {
        "workspace_id": turn.workspace_id,
        "session_id": turn.session_id,
        "turn_id": turn.turn_id,
        "question_bytes": turn.question_bytes,
        "outcome": turn.outcome.value if turn.outcome else None,
        "ended_at": turn.ended_at,
        "ended_by": str(turn.ended_by) if turn.ended_by else None,
        "unjoined_count": turn.unjoined_count,
        "ending": int(turn.ending),
    }
