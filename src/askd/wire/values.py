"""JSON values as google.protobuf.Value and back."""

from google.protobuf import struct_pb2

from askd.domain import limits
from askd.domain.canonical import Json
from askd.domain.errors import content
from askd.domain.paths import Path, render


def from_proto(value: struct_pb2.Value, path: Path, depth: int = 0) -> Json:
    """The JSON value of a message; one that is unset, at any level, or too deep is ContentError."""
    kind = value.WhichOneof("kind")
    if kind in ("list_value", "struct_value") and depth >= limits.JSON_DEPTH:
        raise content(render(path), f"nested deeper than {limits.JSON_DEPTH} levels")
    match kind:
        case "string_value":
            return value.string_value
        case "number_value":
            return _number(value.number_value)
        case "bool_value":
            return value.bool_value
        case "null_value":
            return None
        case "list_value":
            items = value.list_value.values
            return [from_proto(item, (path, index), depth + 1) for index, item in enumerate(items)]
        case "struct_value":
            fields = value.struct_value.fields
            return {key: from_proto(item, (path, key), depth + 1) for key, item in fields.items()}
    raise content(render(path), "is required; null must be explicit")


def _number(value: float) -> int | float:
    # Doubles are all that protobuf has: whole ones read as JSON writes them.
    return int(value) if value.is_integer() and abs(value) <= limits.JSON_INTEGER else value


def to_proto(value: Json) -> struct_pb2.Value:
    """The message of a JSON value."""
    message = struct_pb2.Value()
    fill(message, value)
    return message


def fill(message: struct_pb2.Value, value: Json) -> None:
    """Set a message that lies in another to a JSON value."""
    match value:
        case None:
            message.null_value = struct_pb2.NULL_VALUE
        case bool():
            message.bool_value = value
        case str():
            message.string_value = value
        case int() | float():
            message.number_value = value
        case list():
            message.list_value.SetInParent()
            for item in value:
                fill(message.list_value.values.add(), item)
        case dict():
            message.struct_value.SetInParent()
            for key, item in value.items():
                fill(message.struct_value.fields[key], item)
