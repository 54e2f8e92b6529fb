"""The paths of opencode clients in OpenAPI."""

from typing import Any

from askd.gateway.describe import (
    IDENTIFIER,
    LAST_EVENT_ID,
    STRING,
    array,
    body,
    events,
    operation,
    parameter,
    record,
    ref,
    success,
    words,
)
from askd.gateway.schemas_requests import REPLY_EXAMPLE

TAG = "Existing opencode clients"

SCHEMAS: dict[str, Any] = {
    "OpencodeEvent": record({"id": STRING, "type": STRING, "properties": {"type": "object"}}),
    "QuestionNotFoundError": record(
        {"_tag": {"const": "QuestionNotFoundError"}, "requestID": STRING, "message": STRING},
        description="There is no such request, or it is resolved already.",
    ),
    "BadRequestError": record(
        {
            "name": {"const": "BadRequest"},
            "data": record({"message": STRING, "kind": words("Params", "Headers", "Query", "Body", "Payload")}),
        }
    ),
    "TaggedError": record({"_tag": STRING, "message": STRING, "kind": STRING}, optional=["kind"]),
}
_NOT_FOUND = {"oneOf": [ref("QuestionNotFoundError"), ref("NotFoundError")]}
_ERRORS = {0: ref("TaggedError"), 400: ref("BadRequestError"), 404: _NOT_FOUND}

_WORKSPACE = {**IDENTIFIER, "minLength": 0}
_PLACE = (
    parameter("workspace", "query", _WORKSPACE, "The workspace. Default: the header's, else the credential's own."),
    parameter("directory", "query", STRING, "Ignored."),
    parameter("x-opencode-workspace", "header", STRING, "The workspace, where the query names none."),
)
_REQUEST = (parameter("requestID", "path", IDENTIFIER, "The question request."), *_PLACE)

LIST = operation(
    "question.list", TAG, "List every pending question request, oldest first",
    parameters=_PLACE,
    answers=success("The requests, streamed.", array(ref("QuestionRequest"))),
    errors=_ERRORS,
)  # fmt: skip
REPLY = operation(
    "question.reply", TAG, "Answer a question request",
    parameters=_REQUEST,
    request=body(ref("Answers"), REPLY_EXAMPLE),
    answers=success("It is answered.", {"const": True}),
    errors=_ERRORS,
    statuses=(409,),
)  # fmt: skip
REJECT = operation(
    "question.reject", TAG, "Refuse to answer a question request",
    parameters=_REQUEST,
    request=body(ref("NoBody"), {}, required=False),
    answers=success("It is rejected.", {"const": True}),
    errors=_ERRORS,
)  # fmt: skip
EVENTS = operation(
    "event.subscribe", TAG, "Subscribe to changes of question requests",
    parameters=(*_PLACE, parameter("Last-Event-ID", "header", LAST_EVENT_ID)),
    answers=events(
        "server.connected, then question.asked, question.replied and question.rejected as they happen, and "
        "global.disposed when the server ends the stream.",
        ("message",),
        ref("OpencodeEvent"),
    ),
    errors=_ERRORS,
    statuses=(410,),
)  # fmt: skip
