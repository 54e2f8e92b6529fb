"""How many bytes questions and answers take as protobuf, reckoned without protobuf (CONTRACT section 2).

Every field number involved is below 16, so a tag is one byte.
"""

from askd.domain.canonical import Json
from askd.domain.text import size

_NUMBER = 1 + 8
SCALAR = 1 + 1


def field(length: int) -> int:
    """A length-delimited field of `length` bytes: tag, length and content."""
    return length + 2 if length < 0x80 else 1 + (length.bit_length() + 6) // 7 + length


def text(value: str) -> int:
    """A string field that is left out when empty."""
    return field(size(value)) if value else 0


def present_text(value: str | None) -> int:
    """A string field with presence: left out when None."""
    return 0 if value is None else field(size(value))


def json_value(value: Json) -> int:
    """A google.protobuf.Value message."""
    match value:
        case str():
            return field(size(value))
        case None | bool():
            return SCALAR
        case int() | float():
            return _NUMBER
        case list():
            return field(sum([field(json_value(item)) for item in value]))
        case dict():
            # A map entry always carries both its fields.
            return field(sum([field(field(size(key)) + field(json_value(item))) for key, item in value.items()]))


def selection(identifier: str, value: int) -> int:
    """An askd.v1.Selection message whose value message has `value` bytes."""
    return text(identifier) + field(value)
