"""Rules for texts that are no JSON content: identifiers, blankness, sizes (CONTRACT section 1)."""

from askd.domain import limits
from askd.domain.errors import invalid

# Unicode's White_Space, which is neither str.isspace() nor what str.strip() takes off.
_WHITE_SPACE = "".join(
    map(
        chr,
        [*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000],
    )
)
_CONTROL = frozenset(map(chr, [*range(0x20), 0x7F]))


def is_blank(text: str) -> bool:
    """Whether a text is nothing but Unicode White_Space; the empty text is."""
    return not text.strip(_WHITE_SPACE)


def size(text: str) -> int:
    """The length in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode())


def check_identifier(value: str, field: str) -> str:
    """A caller-made workspace, session or turn id: 1-128 bytes, not blank, no control characters."""
    if is_blank(value):
        raise invalid(field, "must not be blank")
    check_size(value, field, limits.IDENTIFIER)
    return check_printable(value, field)


def has_control(text: str) -> bool:
    """Whether a text holds control characters (U+0000-U+001F, U+007F)."""
    return not _CONTROL.isdisjoint(text)


def check_printable(value: str, field: str) -> str:
    """Refuse a text with control characters as invalid_arguments."""
    if has_control(value):
        raise invalid(field, "must not hold control characters")
    return value


def check_size(value: str, field: str, limit: int) -> str:
    """Refuse a text of more than `limit` UTF-8 bytes as invalid_arguments."""
    if (actual := size(value)) > limit:
        raise invalid(field, f"{actual} bytes, the limit is {limit}")
    return value
