"""Dialect A in OpenAPI."""

from typing import Any

from askd.gateway.describe import (
    BOOLEAN,
    EXPIRES_IN,
    IDENTIFIER,
    STRING,
    TIME,
    array,
    body,
    operation,
    parameter,
    record,
    ref,
    success,
    words,
)

TAG = "Dialect A: asks of a turn"

_TITLE = {"type": "string", "minLength": 1, "maxLength": 256, "pattern": r"\S"}
_PART = {
    "oneOf": [
        record({"type": words("text"), "text": STRING}),
        record({"type": words("json"), "value": {"description": "Any JSON, at most 20 levels deep."}}),
    ]
}
_PARTS = array(ref("ContentPart"), maxItems=64)
_OPTION = record(
    {
        "id": {"type": "string", "minLength": 1, "maxLength": 128, "description": "Unique in its question."},
        "label": {"type": "string", "maxLength": 256},
        "description": {"type": "string", "maxLength": 2048},
        "value": {"description": "Any JSON; what the asker gets when the option is selected. null must be explicit."},
    },
    optional=["description"],
)
_CHOICE = {
    "type": words("choice"),
    "options": array(ref("ChoiceOption"), minItems=1, maxItems=100),
    "multiple": BOOLEAN,
    "allowCustom": BOOLEAN,
    "allowNotes": BOOLEAN,
}
_FLAGS = ("multiple", "allowCustom", "allowNotes")
_FREE_TEXT = {"type": "string", "minLength": 1, "maxLength": 8190}
_ANSWER_ID = {"type": "string", "minLength": 1, "maxLength": 512, "description": "Makes a retry safe."}


def _question(prompt: dict[str, Any]) -> dict[str, Any]:
    heading = {"prompt": prompt, "title": _TITLE}
    return {
        "oneOf": [
            record({**heading, "type": words("text")}, optional=["title"]),
            record({**heading, **_CHOICE}, optional=["title", *_FLAGS]),
        ]
    }


def _ask_state(with_questions: bool, description: str) -> dict[str, Any]:
    """An ask has `question` and `answer`, or `questions` and `answers` where it is one of several questions."""
    fields: dict[str, Any] = {
        "id": STRING,
        "sessionId": STRING,
        "turnId": STRING,
        "status": words("pending", "answered", "cancelled"),
    }
    if with_questions:
        fields |= {"question": ref("NormalizedQuestion"), "questions": array(ref("NormalizedQuestion"), minItems=2)}
    fields |= {
        "answer": ref("Answer"),
        "answers": array(ref("Answer"), minItems=2),
        "payloadExpired": {"const": True},
        "createdAt": TIME,
        "answeredAt": TIME,
        "cancelledAt": TIME,
        "answeredByUserId": STRING,
        "answeredByApiKeyId": STRING,
    }
    always = {"id", "sessionId", "turnId", "status", "createdAt"}
    return record(fields, optional=fields.keys() - always, description=description)


SCHEMAS: dict[str, Any] = {
    "ContentPart": _PART,
    "ChoiceOption": _OPTION,
    "Question": _question({"oneOf": [STRING, _PARTS]}),
    "NormalizedQuestion": _question(_PARTS),
    "AnswerSubmission": {
        "oneOf": [
            {"type": "string", "description": "The answer to a text question."},
            record(
                {"selectedIds": array(STRING, uniqueItems=True), "custom": _FREE_TEXT, "notes": _FREE_TEXT},
                optional=["custom", "notes"],
            ),
        ]
    },
    "Answer": {
        "oneOf": [
            STRING,
            record(
                {"selected": array(record({"id": STRING, "value": {}})), "custom": STRING, "notes": STRING},
                optional=["custom", "notes"],
            ),
        ]
    },
    "AskState": _ask_state(with_questions=True, description="A rejected ask reads cancelled."),
    "AskAnswerReceipt": _ask_state(with_questions=False, description="AskState without its question."),
    "AskPage": record({"items": array(ref("AskState")), "nextCursor": STRING}, optional=["nextCursor"]),
    "Error": record(
        {
            "error": record(
                {"code": STRING, "message": STRING, "details": {"type": "object", "additionalProperties": STRING}},
                optional=["details"],
            )
        }
    ),
}
_ERRORS = {0: ref("Error")}

_TURN = (
    parameter("sessionId", "path", IDENTIFIER, "The session."),
    parameter("turnId", "path", IDENTIFIER, "The turn."),
)
_ASK = (*_TURN, parameter("askId", "path", IDENTIFIER, "The ask."))
_MADE = {
    "sessionId": "$request.path.sessionId",
    "turnId": "$request.path.turnId",
    "askId": "$response.body#/id",
}

LIST = operation(
    "listAsks", TAG, "List the asks of a turn, oldest first",
    parameters=(
        *_TURN,
        parameter("cursor", "query", {"type": "string", "minLength": 1}, "The nextCursor of the page before."),
        parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 100, "default": 50}),
    ),
    answers=success("A page of asks.", ref("AskPage")),
    errors=_ERRORS,
)  # fmt: skip
CREATE = operation(
    "createAsk", TAG, "Ask a question",
    parameters=_TURN,
    request=body(
        record(
            {
                "question": ref("Question"),
                "requestId": {"type": "string", "minLength": 1, "maxLength": 512, "description": "Makes a retry safe."},
                "expiresIn": EXPIRES_IN,
            },
            optional=["requestId", "expiresIn"],
        ),
        {
            "question": {
                "prompt": "Deploy build 7 now?",
                "type": "choice",
                "options": [{"id": "yes", "label": "Yes", "value": True}, {"id": "no", "label": "No", "value": False}],
            }
        },
    ),
    answers=success("The ask as stored.", ref("AskState"), status=201, links={"getAsk": _MADE, "answerAsk": _MADE}),
    errors=_ERRORS,
    statuses=(409,),
)  # fmt: skip
GET = operation(
    "getAsk", TAG, "Get an ask, if wanted once it is resolved",
    parameters=(
        *_ASK,
        parameter(
            "wait", "query", {"type": "integer", "minimum": 1, "maximum": 300},
            "Seconds to wait for the resolution; the ask is pending still where they pass first.",
        ),
    ),
    answers=success("The ask.", ref("AskState")),
    errors=_ERRORS,
)  # fmt: skip
ANSWER = operation(
    "answerAsk", TAG, "Answer an ask, once",
    description="The same answerId with the same answer returns the first receipt again.",
    parameters=_ASK,
    request=body(
        {
            "oneOf": [
                record({"answer": ref("AnswerSubmission"), "answerId": _ANSWER_ID}),
                record(
                    {"answers": array(ref("AnswerSubmission"), minItems=1, maxItems=32), "answerId": _ANSWER_ID},
                    description="For an ask of several questions.",
                ),
            ]
        },
        {"answer": {"selectedIds": ["yes"]}, "answerId": "a-1"},
    ),
    answers=success("The receipt.", ref("AskAnswerReceipt")),
    errors=_ERRORS,
    statuses=(409,),
)  # fmt: skip
