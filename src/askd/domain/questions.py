"""Questions and their normalized JSON form (CONTRACT section 2)."""

import json
from typing import Any, TypeAlias

from askd.domain.canonical import Json
from askd.domain.values import value


@value
class TextPart:
    """A part of a prompt that is text."""

    text: str


@value
class JsonPart:
    """A part of a prompt that is a JSON value."""

    value: Json


Part: TypeAlias = TextPart | JsonPart


@value
class Option:
    """One option of a choice question."""

    id: str
    label: str
    value: Json
    description: str | None = None


@value
class TextQuestion:
    """A question whose answer is free text."""

    prompt: tuple[Part, ...]
    title: str | None = None


@value
class ChoiceQuestion:
    """A question whose answer is a choice among options."""

    prompt: tuple[Part, ...]
    title: str | None = None
    options: tuple[Option, ...]
    multiple: bool = False
    allow_custom: bool = False
    allow_notes: bool = False


Question: TypeAlias = TextQuestion | ChoiceQuestion


@value
class QuestionSet:
    """The checked questions of one ask: `encoded` is their canonical JSON array, `encoded_size` its bytes,
    `wire_size` their bytes as a protobuf field."""

    questions: tuple[Question, ...]
    encoded: str
    encoded_size: int
    wire_size: int


def to_json(question: Question) -> dict[str, Json]:
    """The normalized JSON form: the prompt as an array, false flags and absent fields left out."""
    fields: dict[str, Json] = {"prompt": [_part_to_json(part) for part in question.prompt]}
    if question.title is not None:
        fields["title"] = question.title
    if isinstance(question, TextQuestion):
        return fields | {"type": "text"}
    fields |= {"type": "choice", "options": [_option_to_json(option) for option in question.options]}
    flags = {"multiple": question.multiple, "allowCustom": question.allow_custom, "allowNotes": question.allow_notes}
    return fields | {name: True for name, flag in flags.items() if flag}


def _part_to_json(part: Part) -> Json:
    match part:
        case TextPart(text=text):
            return {"type": "text", "text": text}
        case JsonPart(value=value):
            return {"type": "json", "value": value}


def _option_to_json(option: Option) -> Json:
    fields: dict[str, Json] = {"id": option.id, "label": option.label, "value": option.value}
    return fields if option.description is None else fields | {"description": option.description}


def decode_questions(encoded: str) -> tuple[Question, ...]:
    """The questions of a stored `QuestionSet.encoded`, which was checked when it was stored."""
    return tuple(_from_stored(fields) for fields in json.loads(encoded))


def _from_stored(fields: dict[str, Any]) -> Question:
    prompt = tuple(
        TextPart(text=part["text"]) if part["type"] == "text" else JsonPart(value=part["value"])
        for part in fields["prompt"]
    )
    if fields["type"] == "text":
        return TextQuestion(prompt=prompt, title=fields.get("title"))
    return ChoiceQuestion(
        prompt=prompt,
        title=fields.get("title"),
        options=tuple(Option(**option) for option in fields["options"]),
        multiple=fields.get("multiple", False),
        allow_custom=fields.get("allowCustom", False),
        allow_notes=fields.get("allowNotes", False),
    )
