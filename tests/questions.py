"""Small questions and submissions as messages."""

from typing import Any

from google.protobuf import struct_pb2

from askd.v1 import ask_pb2 as pb


def json_value(value: Any) -> struct_pb2.Value:
    """A JSON value as protobuf, made without the code under test."""
    message = struct_pb2.Value()
    match value:
        case None:
            message.null_value = struct_pb2.NULL_VALUE
        case bool():
            message.bool_value = value
        case int() | float():
            message.number_value = value
        case str():
            message.string_value = value
        case list():
            message.list_value.values.extend(json_value(item) for item in value)
        case dict():
            message.struct_value.SetInParent()
            for key, item in value.items():
                message.struct_value.fields[key].CopyFrom(json_value(item))
    if isinstance(value, list):
        message.list_value.SetInParent()
    return message


def text_question(text: str = "Which name?", **fields: Any) -> pb.Question:
    return pb.Question(prompt=[pb.ContentPart(text=text)], text=pb.TextQuestion(), **fields)


def json_question(value: Any) -> pb.Question:
    """A text question whose prompt is one JSON value."""
    return pb.Question(prompt=[pb.ContentPart(json=json_value(value))], text=pb.TextQuestion())


def choice_question(*ids: str, text: str = "Which one?", title: str | None = None, **fields: Any) -> pb.Question:
    """A choice among options that are labelled and valued by their ids."""
    options = [pb.ChoiceOption(id=item, label=item.upper(), value=json_value(item)) for item in ids or ("a", "b")]
    choice = pb.ChoiceQuestion(options=options, **fields)
    return pb.Question(prompt=[pb.ContentPart(text=text)], title=title, choice=choice)


def text(answer: str = "Ada") -> pb.AnswerSubmission:
    return pb.AnswerSubmission(text=answer)


def chosen(*ids: str, custom: str | None = None, notes: str | None = None) -> pb.AnswerSubmission:
    return pb.AnswerSubmission(choice=pb.ChoiceSubmission(selected_ids=ids, custom=custom, notes=notes))
