"""Questions from JSON data, strictly: nothing is coerced, nothing unknown passes (CONTRACT section 2)."""

from collections.abc import Sequence
from typing import cast

from askd.domain import canonical
from askd.domain.canonical import Json
from askd.domain.errors import Code, content
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, Part, Question, TextPart, TextQuestion

_COMMON = frozenset({"prompt", "title", "type"})
_CHOICE_ONLY = frozenset({"options", "multiple", "allowCustom", "allowNotes"})
_OPTION = frozenset({"id", "label", "description", "value"})
_PART_FIELDS = {"text": frozenset({"type", "text"}), "json": frozenset({"type", "value"})}


def parse_question(value: object, path: str) -> Question:
    """A question from JSON data; wrong types, unknown fields and illegal values are ContentError. The limits are left
    to check_questions."""
    fields = _object(value, path)
    match fields.get("type"):
        case "text":
            _known(fields, _COMMON, path)
            return TextQuestion(prompt=_prompt(fields, path), title=_optional_text(fields, "title", path))
        case "choice":
            _known(fields, _COMMON | _CHOICE_ONLY, path)
            return ChoiceQuestion(
                prompt=_prompt(fields, path),
                title=_optional_text(fields, "title", path),
                options=tuple(
                    _option(item, f"{path}.options[{index}]")
                    for index, item in enumerate(_array(_required(fields, "options", path), f"{path}.options"))
                ),
                multiple=_flag(fields, "multiple", path),
                allow_custom=_flag(fields, "allowCustom", path),
                allow_notes=_flag(fields, "allowNotes", path),
            )
    raise content(f"{path}.type", 'must be "text" or "choice"')


def _prompt(fields: dict[str, object], path: str) -> tuple[Part, ...]:
    value = _required(fields, "prompt", path)
    if isinstance(value, str):
        return (TextPart(text=_text(value, f"{path}.prompt")),)
    return tuple(_part(item, f"{path}.prompt[{index}]") for index, item in enumerate(_array(value, f"{path}.prompt")))


def _part(value: object, path: str) -> Part:
    fields = _object(value, path)
    kind = _text(_required(fields, "type", path), f"{path}.type")
    if kind not in _PART_FIELDS:
        raise content(f"{path}.type", "must be text or json", Code.CONTENT_KIND_UNSUPPORTED)
    _known(fields, _PART_FIELDS[kind], path)
    if kind == "text":
        return TextPart(text=_text(_required(fields, "text", path), f"{path}.text"))
    return JsonPart(value=_value(fields, path))


def _option(value: object, path: str) -> Option:
    fields = _object(value, path)
    _known(fields, _OPTION, path)
    return Option(
        id=_text(_required(fields, "id", path), f"{path}.id"),
        label=_text(_required(fields, "label", path), f"{path}.label"),
        value=_value(fields, path),
        description=_optional_text(fields, "description", path),
    )


def _value(fields: dict[str, object], path: str) -> Json:
    value = _required(fields, "value", path)
    canonical.check(value, f"{path}.value")
    return cast("Json", value)


def _object(value: object, path: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise content(path, "must be an object")
    return value


def _array(value: object, path: str) -> Sequence[object]:
    if not isinstance(value, list | tuple):
        raise content(path, "must be an array")
    return value


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise content(path, "must be a string")
    canonical.check_text(value, path)
    return value


def _optional_text(fields: dict[str, object], name: str, path: str) -> str | None:
    return _text(fields[name], f"{path}.{name}") if name in fields else None


def _flag(fields: dict[str, object], name: str, path: str) -> bool:
    value = fields.get(name, False)
    if not isinstance(value, bool):
        raise content(f"{path}.{name}", "must be true or false")
    return value


def _required(fields: dict[str, object], name: str, path: str) -> object:
    if name not in fields:
        raise content(f"{path}.{name}", "is required")
    return fields[name]


def _known(fields: dict[str, object], names: frozenset[str], path: str) -> None:
    for name in fields:
        if name not in names:
            canonical.check_key(name, path)
            raise content(f"{path}.{name}", "is no field of this kind")
