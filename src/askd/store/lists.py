"""Lists of values for IN."""

from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def padded(values: Sequence[T]) -> Sequence[T]:
    """As many values as a power of two, the last one repeated: so there are few statements, and each stays prepared."""
    missing = power_of_two(len(values)) - len(values) if values else 0
    return [*values, *[values[-1]] * missing] if missing else values


def power_of_two(number: int) -> int:
    """The next power of two, or the number itself if it is one."""
    return 1 << (number - 1).bit_length()


def storable(ids: Iterable[str]) -> list[str]:
    """The ids that may be stored at all. PostgreSQL's text holds no U+0000 and refuses even to look for it."""
    return [identifier for identifier in ids if "\0" not in identifier]
