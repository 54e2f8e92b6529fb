"""Question requests in OpenAPI: the shapes that dialect B and opencode clients share."""

from typing import Any

from askd.gateway.describe import BOOLEAN, STRING, array, record, ref

_TOOL = record({"messageID": STRING, "callID": STRING})
_NOT_BLANK = {"type": "string", "minLength": 1, "pattern": r"\S"}
_HEADING = {"question": _NOT_BLANK, "header": {"type": "string", "maxLength": 256}}
_NEW_OPTION = record(
    {
        "label": {**_NOT_BLANK, "maxLength": 256, "description": "Unique in its question."},
        "description": {"type": "string", "maxLength": 2048},
    },
    optional=["description"],
)

SCHEMAS: dict[str, Any] = {
    "QuestionInfo": record(
        {
            "question": STRING,
            "header": STRING,
            "options": array(record({"label": STRING, "description": STRING})),
            "multiple": BOOLEAN,
            "custom": BOOLEAN,
        }
    ),
    "QuestionRequest": record(
        {"id": STRING, "sessionID": STRING, "questions": array(ref("QuestionInfo")), "tool": _TOOL}, optional=["tool"]
    ),
    "NewQuestion": {
        "oneOf": [
            record(
                {
                    **_HEADING,
                    "options": array(_NEW_OPTION, minItems=1, maxItems=100),
                    "multiple": {**BOOLEAN, "default": False},
                    "custom": {**BOOLEAN, "default": True},
                },
                optional=["header", "multiple", "custom"],
            ),
            record(
                {
                    **_HEADING,
                    "options": array(_NEW_OPTION, maxItems=0),
                    "multiple": {"const": False},
                    "custom": {"const": True},
                },
                optional=["header", "options", "multiple", "custom"],
                description="Without options the answer is free text.",
            ),
        ]
    },
    "ToolCall": record(
        {"messageID": {"type": "string", "maxLength": 512}, "callID": {"type": "string", "maxLength": 512}}
    ),
    "Answers": record(
        {
            "answers": array(
                array(STRING, minItems=1),
                minItems=1,
                description="For each question in order the labels chosen, or an answer in the person's own words.",
            )
        }
    ),
    "NoBody": {"oneOf": [record({}), {"type": "null"}]},
}
REPLY_EXAMPLE = {"answers": [["Yes"]]}
