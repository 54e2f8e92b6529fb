"""Rows to asks and back."""

import json
from collections.abc import Mapping
from enum import IntEnum
from typing import Any

from sqlalchemy import Row

from askd.domain.answers import decode_answers
from askd.domain.asks import Ask, AskStatus, CancelReason, ToolCall
from askd.domain.canonical import encode
from askd.domain.principals import Principal
from askd.domain.questions import decode_questions


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


def to_ask(row: Row[Any], payload: Mapping[int, str]) -> Ask:
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
        resolved_at=row.resolved_at,
        resolved_revision=row.resolved_revision,
        resolved_by=Principal.parse(row.resolved_by) if row.resolved_by else None,
        resolution_id=row.resolution_id,
        answer_id=_text(row.answer_id),
        answers=decode_answers(answers) if answers else (),
        reject_reason=None if reason is None else _reason(reason),
        cancel_reason=CancelReason(row.cancel_reason) if row.cancel_reason else None,
        encoded_questions=questions,
        encoded_answers=answers,
    )


def _tool(row: Row[Any]) -> ToolCall | None:
    if row.tool_call_id is None:
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
        "payload_bytes": len(ask.encoded_questions.encode()),
    }


def resolved(ask: Ask) -> dict[str, Any]:
    """The columns that a resolution sets, with the ask's id as `ask_id` and the payload's growth as `added_bytes`."""
    return {
        "ask_id": ask.id,
        "status": STATUS_CODES[ask.status],
        "resolved_at": ask.resolved_at,
        "resolved_revision": ask.resolved_revision,
        "resolved_by": str(ask.resolved_by) if ask.resolved_by else None,
        "resolution_id": ask.resolution_id,
        "answer_id": _bytes(ask.answer_id),
        "cancel_reason": ask.cancel_reason.value if ask.cancel_reason else None,
        "added_bytes": sum(len(part["body"].encode()) for part in resolution_parts(ask)),
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
