"""The two forms of a question that limits count: its canonical JSON and its protobuf message, the latter as a size.

A question's canonical JSON is put together from that of its parts, so that nothing in it is encoded or walked twice.
"""

from collections.abc import Sequence
from typing import NamedTuple

from askd.domain import canonical, wire_size
from askd.domain.canonical import Json, encode_text
from askd.domain.paths import Path
from askd.domain.questions import ChoiceQuestion, JsonPart, Option, Part, Question, TextPart
from askd.domain.text import size


class Form(NamedTuple):
    """A thing's canonical JSON, and the bytes of its protobuf message."""

    encoded: str
    wire: int


def of_value(value: Json, path: Path) -> Form:
    """A JSON value as a google.protobuf.Value; one that is no legal JSON is ContentError."""
    return Form(canonical.encode_checked(value, path), wire_size.json_value(value))


def of_part(part: Part, path: Path) -> Form:
    """A part of a prompt; a value that is no legal JSON is ContentError."""
    match part:
        case TextPart(text=text):
            return Form(f'{{"text":{encode_text(text)},"type":"text"}}', wire_size.field(size(text)))
        case JsonPart(value=value):
            form = of_value(value, (path, "value"))
            return Form(f'{{"type":"json","value":{form.encoded}}}', wire_size.field(form.wire))


def of_option(option: Option, value: Form) -> Form:
    """An option, given its value's form."""
    description = "" if option.description is None else f'"description":{encode_text(option.description)},'
    texts = wire_size.text(option.id) + wire_size.text(option.label) + wire_size.present_text(option.description)
    return Form(
        f'{{{description}"id":{encode_text(option.id)},"label":{encode_text(option.label)},"value":{value.encoded}}}',
        texts + wire_size.field(value.wire),
    )


def of_selection(option: Option, value: Form) -> Form:
    """The selection of an option, given its value's form."""
    return Form(
        f'{{"id":{encode_text(option.id)},"value":{value.encoded}}}', wire_size.selection(option.id, value.wire)
    )


def of_question(question: Question, prompt: Sequence[Form], values: Sequence[Form]) -> Form:
    """A question, given the forms of its parts and of its options' values."""
    title = "" if question.title is None else f'"title":{encode_text(question.title)},'
    heading = f'"prompt":{_array(prompt)},{title}'
    wire = _repeated(prompt) + wire_size.present_text(question.title)
    if not isinstance(question, ChoiceQuestion):
        return Form(f'{{{heading}"type":"text"}}', wire + wire_size.field(0))
    options = list(map(of_option, question.options, values))
    flags = {"allowCustom": question.allow_custom, "allowNotes": question.allow_notes, "multiple": question.multiple}
    names = [f'"{name}":true,' for name, flag in flags.items() if flag]
    return Form(
        f'{{{"".join(names)}"options":{_array(options)},{heading}"type":"choice"}}',
        wire + wire_size.field(_repeated(options) + len(names) * wire_size.SCALAR),
    )


def _array(forms: Sequence[Form]) -> str:
    return f"[{','.join([form.encoded for form in forms])}]"


def _repeated(forms: Sequence[Form]) -> int:
    return sum([wire_size.field(form.wire) for form in forms])
