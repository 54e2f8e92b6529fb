"""Canonical JSON (RFC 8785) of ordinary JSON values, and what makes a value legal (CONTRACT section 2)."""

import json
import math
import sys
from collections.abc import Callable, Iterable
from typing import TypeAlias

import rfc8785

from askd.domain import limits
from askd.domain.errors import content
from askd.domain.paths import Path, render

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

# Below this, Python and ECMAScript write a float differently (1e-05 against 0.00001).
_SMALLEST_ALIKE = 1e-4
_LAST_OF_PLANE_0 = "\uffff"
_ANY_DEPTH = sys.maxsize

_encode = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode

#: The canonical JSON of a text, quotes included.
encode_text: Callable[[str], str] = json.encoder.encode_basestring


def encode(value: object) -> str:
    """The canonical JSON of a value. One that is no legal JSON is ContentError, but any depth is fine."""
    return _write(value, alike=_inspect(value, "value", _ANY_DEPTH))


def encode_checked(value: object, path: Path) -> str:
    """The canonical JSON of a value that a caller made; one that is no legal JSON is ContentError at its path."""
    return _write(value, alike=_inspect(value, path, limits.JSON_DEPTH))


def check(value: object, path: Path) -> None:
    """Refuse a value that is no legal JSON, naming the path of what is wrong in it."""
    _inspect(value, path, limits.JSON_DEPTH)


def encoded_size(text: str) -> int:
    """The bytes of an encoded text, quotes included."""
    return len(encode_text(text).encode())


def _write(value: object, alike: bool) -> str:
    """The C encoder writes what it writes alike: rfc8785 is exact everywhere, and thirty times slower."""
    return _encode(value) if alike else rfc8785.dumps(value).decode()  # type: ignore[arg-type]  # invariant in dict


def _inspect(value: object, path: Path, levels: int) -> bool:
    """Whether the C encoder writes a legal value as RFC 8785 does: everywhere but in the spelling of some floats and in
    the order of keys beyond plane 0. At most `levels` arrays and objects may lie in each other."""
    match value:
        case str():
            check_text(value, path)
        case None | bool():
            pass
        case int() | float():
            return _inspect_number(value, path)
        case list():
            return _inspect_items(enumerate(value), path, levels)
        case dict():
            keys = [_inspect_key(key, path) for key in value]
            return _inspect_items(value.items(), path, levels) and all(keys)
        case _:
            raise content(render(path), f"{type(value).__name__} is no JSON type")
    return True


def _inspect_items(items: Iterable[tuple[int | str, object]], path: Path, levels: int) -> bool:
    if not levels:
        raise content(render(path), f"nested deeper than {limits.JSON_DEPTH} levels")
    alike = True
    for step, item in items:
        alike &= _inspect(item, (path, step), levels - 1)
    return alike


def _inspect_key(key: object, path: Path) -> bool:
    if isinstance(key, str) and key.isascii():
        return True
    return max(check_key(key, path)) <= _LAST_OF_PLANE_0


def _inspect_number(value: float, path: Path) -> bool:
    if not abs(value) <= limits.JSON_INTEGER:
        # Every float this large is integral; what is neither that large nor that small is NaN.
        finite = isinstance(value, int) or math.isfinite(value)
        reason = "an integral number must be within ±(2^53-1)" if finite else "a number must be finite"
        raise content(render(path), reason)
    return isinstance(value, int) or (abs(value) >= _SMALLEST_ALIKE and not value.is_integer())


def check_text(value: str, path: Path) -> None:
    """Refuse a text with lone surrogates, which no encoding can carry."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise content(render(path), "a lone surrogate is no Unicode text") from None


def check_key(key: object, path: Path) -> str:
    """The key of an object, which must be a text without lone surrogates."""
    if not isinstance(key, str):
        raise content(render(path), f"a key is no string but {type(key).__name__}")
    check_text(key, path)
    return key


__all__ = ["Json", "check", "check_key", "check_text", "encode", "encode_checked", "encode_text", "encoded_size"]
