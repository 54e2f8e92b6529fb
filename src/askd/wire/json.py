"""Asks as JSON data, in the names of CONTRACT sections 2, 3 and 7."""

from datetime import UTC, datetime
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from askd.domain.answers import ChoiceSubmission, Submission, answer_invalid, check_text
from askd.domain.canonical import Json
from askd.v1 import ask_pb2 as pb
from askd.wire import values


def question(message: pb.Question) -> dict[str, Json]:
    """The normalized JSON form of a question."""
    fields: dict[str, Json] = {"prompt": [_part(part) for part in message.prompt]}
    if message.HasField("title"):
        fields["title"] = message.title
    if message.WhichOneof("kind") == "text":
        return fields | {"type": "text"}
    choice = message.choice
    fields |= {"type": "choice", "options": [_option(option) for option in choice.options]}
    flags = {"multiple": choice.multiple, "allowCustom": choice.allow_custom, "allowNotes": choice.allow_notes}
    return fields | {name: True for name, flag in flags.items() if flag}


def _part(message: pb.ContentPart) -> Json:
    if message.WhichOneof("part") == "text":
        return {"type": "text", "text": message.text}
    return {"type": "json", "value": values.from_proto(message.json, "value")}


def _option(message: pb.ChoiceOption) -> Json:
    fields: dict[str, Json] = {"id": message.id, "label": message.label}
    if message.HasField("description"):
        fields["description"] = message.description
    return fields | {"value": values.from_proto(message.value, "value")}


def answer(message: pb.Answer) -> Json:
    """The JSON form of an answer: a string, or {selected, custom?, notes?}."""
    if message.WhichOneof("kind") == "text":
        return message.text
    choice = message.choice
    fields: dict[str, Json] = {
        "selected": [{"id": item.id, "value": values.from_proto(item.value, "value")} for item in choice.selected]
    }
    return fields | {name: getattr(choice, name) for name in ("custom", "notes") if choice.HasField(name)}


def submission(data: object, index: int) -> Submission:
    """A submission from JSON data; a wrong type, an unknown field or a lone surrogate is answer_invalid (CONTRACT
    section 3)."""
    if isinstance(data, str):
        return _text(data, index)
    if not isinstance(data, dict):
        raise answer_invalid(index, "must be a string or an object")
    for name in data:
        if name not in ("selectedIds", "custom", "notes"):
            raise answer_invalid(index, "is no field of a submission", _text(name, index))
    return ChoiceSubmission(
        selected_ids=_ids(data.get("selectedIds"), index),
        custom=_optional_text(data, "custom", index),
        notes=_optional_text(data, "notes", index),
    )


def _ids(data: object, index: int) -> tuple[str, ...]:
    if not isinstance(data, list | tuple):
        raise answer_invalid(index, "must be an array of strings", "selectedIds")
    return tuple(_text(item, index, "selectedIds") for item in data)


def _optional_text(data: dict[str, object], name: str, index: int) -> str | None:
    return _text(data[name], index, name) if name in data else None


def _text(value: object, index: int, name: str = "") -> str:
    if not isinstance(value, str):
        raise answer_invalid(index, "must be a string", name)
    check_text(value, index, name)
    return value


def time(message: Timestamp) -> str:
    """RFC 3339 UTC with Z."""
    return message.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """The time of a text that time() made."""
    return datetime.fromisoformat(text)


_TIMES = ("created_at", "answered_at", "rejected_at", "cancelled_at", "expires_at")


def ask(message: pb.AskState) -> dict[str, Json]:
    """The JSON form of an ask: AskState's fields in lower camel case, absent ones left out, enums as lower-case words,
    `askedBy` and `resolvedBy` as {kind: "user" | "api_key", id}."""
    fields: dict[str, Json] = {
        "id": message.id,
        "workspaceId": message.workspace_id,
        "sessionId": message.session_id,
        "status": word(pb.AskStatus.Name(message.status), "ASK_STATUS_"),
        "createdRevision": message.created_revision,
    }
    present = {field.name: value for field, value in message.ListFields()}
    fields |= {camel(name): time(present[name]) for name in _TIMES if name in present}
    fields |= {camel(name): present[name] for name in _OPTIONAL if name in present}
    if asker := message.WhichOneof("asked_by"):
        fields["askedBy"] = _principal(asker, present)
    if resolver := message.WhichOneof("resolved_by"):
        fields["resolvedBy"] = _principal(resolver, present)
    if message.questions:
        fields["questions"] = [question(item) for item in message.questions]
    if message.answers:
        fields["answers"] = [answer(item) for item in message.answers]
    if message.cancel_reason:
        fields["cancelReason"] = word(pb.CancelReason.Name(message.cancel_reason), "CANCEL_REASON_")
    if message.HasField("tool"):
        fields["tool"] = {"messageId": message.tool.message_id, "callId": message.tool.call_id}
    return fields | ({"payloadExpired": True} if message.payload_expired else {})


_OPTIONAL = ("turn_id", "reject_reason", "resolved_revision")


def _principal(name: str, present: dict[str, Any]) -> Json:
    return {"kind": "user" if name.endswith("user_id") else "api_key", "id": present[name]}


def word(name: str, prefix: str) -> str:
    """An enum value's name as a lower-case word: ASK_STATUS_PENDING as pending."""
    return name.removeprefix(prefix).lower()


def camel(name: str) -> str:
    """A proto field's name in lower camel case."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
