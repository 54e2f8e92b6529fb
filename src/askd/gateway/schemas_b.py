"""Dialect B in OpenAPI."""

from typing import Any

from askd.gateway.describe import (
    EXPIRES_IN,
    IDENTIFIER,
    LAST_EVENT_ID,
    REVISION,
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

TAG = "Dialect B: questions of a workspace"

_TOKENS = {"type": "integer", "minimum": 0}
_ADVISED_TEXT = {"type": "string", "maxLength": 8192}

SCHEMAS: dict[str, Any] = {
    "FieldErrors": record(
        {
            "data": {"type": "null"},
            "errors": array({"type": "object", "additionalProperties": STRING, "minProperties": 1}, minItems=1),
            "success": {"const": False},
        },
        description="Each error names the field that is wrong, or the code where no field is.",
    ),
    "NotFoundError": record({"name": {"const": "NotFoundError"}, "data": record({"message": STRING})}),
    "ConsultError": record({"error": STRING}),
    "ConsultRateError": record({"error": STRING, "retryAfterMs": {"type": "integer", "minimum": 0}}),
    "QuestionEvent": record(
        {
            "type": STRING,
            "revision": REVISION,
            "request": ref("QuestionRequest"),
            "answers": array(array(STRING), description="In answered: the labels chosen, by question."),
            "code": {"type": "string", "description": "In end: why the server ended the stream."},
            "message": STRING,
        },
        optional=["revision", "request", "answers", "code", "message"],
    ),
    "Recommendation": record(
        {
            "recommendation": array(STRING),
            "reasoning": STRING,
            "confidence": words("high", "medium", "low"),
            "usage": record({"promptTokens": _TOKENS, "completionTokens": _TOKENS, "totalTokens": _TOKENS}),
            "answers": array(array(STRING), description="Can be posted to reply as it is."),
        }
    ),
}
_ERRORS = {0: ref("FieldErrors"), 404: ref("NotFoundError")}
_CONSULT_ERRORS = {**_ERRORS, 429: ref("ConsultRateError"), 502: ref("ConsultError")}

_WORKSPACE = (parameter("workspaceID", "path", IDENTIFIER, "The workspace."),)
_REQUEST = (*_WORKSPACE, parameter("requestID", "path", IDENTIFIER, "The question request."))

_MADE = {"workspaceID": "$request.path.workspaceID", "requestID": "$response.body#/id"}
_FOR_OPENCODE = {"workspace": "$request.path.workspaceID", "requestID": "$response.body#/id"}
_LINKS = {
    "replyToQuestions": _MADE,
    "rejectQuestions": _MADE,
    "consultOnQuestions": _MADE,
    "question.reply": _FOR_OPENCODE,
    "question.reject": _FOR_OPENCODE,
}

LIST = operation(
    "listQuestions", TAG, "List every pending question request of a workspace, oldest first",
    parameters=_WORKSPACE,
    answers=success("The requests, streamed.", array(ref("QuestionRequest"))),
    errors=_ERRORS,
)  # fmt: skip
CREATE = operation(
    "askQuestions", TAG, "Ask questions that are answered together",
    parameters=_WORKSPACE,
    request=body(
        record(
            {
                "sessionID": IDENTIFIER,
                "questions": array(ref("NewQuestion"), minItems=1, maxItems=32),
                "tool": ref("ToolCall"),
                "expiresIn": EXPIRES_IN,
            },
            optional=["tool", "expiresIn"],
        ),
        {
            "sessionID": "s-1",
            "questions": [
                {"question": "Deploy build 7 now?", "header": "Deploy", "options": [{"label": "Yes"}, {"label": "No"}]}
            ],
        },
    ),
    answers=success("The request.", ref("QuestionRequest"), status=201, links=_LINKS),
    errors=_ERRORS,
    statuses=(409,),
)  # fmt: skip
REPLY = operation(
    "replyToQuestions", TAG, "Answer a question request",
    parameters=(
        *_REQUEST,
        parameter("Idempotency-Key", "header", {"type": "string", "minLength": 1, "maxLength": 512},
                  "Makes a retry safe: the same key with the same answers succeeds again."),
    ),
    request=body(ref("Answers"), REPLY_EXAMPLE),
    answers=success("It is answered.", {"const": True}),
    errors=_ERRORS,
    statuses=(409,),
)  # fmt: skip
REJECT = operation(
    "rejectQuestions", TAG, "Refuse to answer a question request",
    parameters=_REQUEST,
    request=body(ref("NoBody"), {}, required=False),
    answers=success("It is rejected.", {"const": True}),
    errors=_ERRORS,
)  # fmt: skip
CONSULT = operation(
    "consultOnQuestions", TAG, "Ask a model how a question request might be answered",
    description="Stores nothing and tells nobody.",
    parameters=_REQUEST,
    request=body(
        record(
            {
                "providerID": STRING,
                "modelID": STRING,
                "note": _ADVISED_TEXT,
                "questionIndex": {"type": "integer", "minimum": 0, "maximum": 31},
                "system": _ADVISED_TEXT,
            },
            optional=["note", "questionIndex", "system"],
        ),
        {"providerID": "anthropic", "modelID": "claude-sonnet-4-20250514"},
    ),
    answers=success("The recommendation.", ref("Recommendation")),
    errors=_CONSULT_ERRORS,
    statuses=(429, 501, 502),
)  # fmt: skip
EVENTS = operation(
    "watchQuestions", TAG, "Watch the question requests of a workspace",
    parameters=(
        *_WORKSPACE,
        parameter("Last-Event-ID", "header", LAST_EVENT_ID, "The id of the last event; the stream goes on after it."),
    ),
    answers=events(
        "First what is pending, or what happened after Last-Event-ID, then synced, then every change as it happens. "
        "The event named end comes last when the server ends the stream.",
        ("pending", "synced", "asked", "answered", "rejected", "cancelled", "end"),
        ref("QuestionEvent"),
    ),
    errors=_ERRORS,
    statuses=(410,),
)  # fmt: skip
