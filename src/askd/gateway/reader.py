"""A strict JSON reader: what it returns can be stored and sent on as it is (CONTRACT section 2)."""

import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NoReturn

from askd.domain import limits
from askd.domain.canonical import Json
from askd.domain.paths import Path, render
from askd.gateway.refusals import RefusalError, invalid

#: How deep a body may nest: what lies around a JSON value of 20 levels, and a little more, so that the server refuses
#: a value that is too deep by its own path.
DEPTH = limits.JSON_DEPTH + 8


# What a text must have in it to hold a number out of range or a lone surrogate: values of other texts need no walk.
_SUSPECT = re.compile(rb"[0-9]{16}|[0-9][eE]|\\u[dD][89a-fA-F]")


class _WrongError(ValueError):
    """What json's hooks have to say of a text."""


def read_json(body: bytes) -> Json:
    """The value of a JSON text in UTF-8.

    Refused as invalid_arguments: anything that RFC 8259 does not allow, duplicate keys, lone surrogates, numbers that
    are not finite or integral beyond ±(2^53-1), and nesting deeper than DEPTH.
    """
    suspect = _SUSPECT.search(body) is not None
    try:
        value: Json = (_decode if suspect else _decode_plain)(body.decode())
    except UnicodeDecodeError:
        raise invalid("body", "must be JSON in UTF-8") from None
    except _WrongError as wrong:
        raise invalid("body", str(wrong)) from None
    except json.JSONDecodeError as wrong:
        raise invalid("body", f"is no JSON: {wrong.msg} at character {wrong.pos}") from None
    except RecursionError:
        raise invalid("body", f"nested deeper than {DEPTH} levels") from None
    if suspect or body.count(b"[") + body.count(b"{") > DEPTH:
        _check(value, "", 0)
    return value


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise _WrongError(f"the key {json.dumps(twice)} stands twice in an object")
    return fields


def _constant(name: str) -> NoReturn:
    raise _WrongError(f"{name} is no JSON number")


def _integer(digits: str) -> int:
    # Beyond this many digits Python does not even try.
    if len(digits) > 4000 or abs(value := int(digits)) > limits.JSON_INTEGER:
        raise _WrongError("an integral number must be within ±(2^53-1)")
    return value


_decode_plain = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant).decode
_decode = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant, parse_int=_integer).decode


def _check(value: Json, path: Path, depth: int) -> None:
    match value:
        case str():
            _check_text(value, path)
        case float():
            _check_number(value, path)
        case list() | dict() if depth >= DEPTH:
            raise _refused(path, f"nested deeper than {DEPTH} levels")
        case list():
            for index, item in enumerate(value):
                _check(item, (path, index), depth + 1)
        case dict():
            for key, item in value.items():
                _check_text(key, path)
                _check(item, (path, key) if path else key, depth + 1)


def _check_text(text: str, path: Path) -> None:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise _refused(path, "a lone surrogate is no Unicode text") from None


def _check_number(value: float, path: Path) -> None:
    if not math.isfinite(value):
        raise _refused(path, "a number must be finite")
    if abs(value) > limits.JSON_INTEGER:  # every float this large is integral
        raise _refused(path, "an integral number must be within ±(2^53-1)")


def _refused(path: Path, reason: str) -> RefusalError:
    return invalid(_shown(render(path)) or "body", reason)


def _shown(path: str) -> str:
    """The path in text that can be sent: a key may hold the very surrogate that is refused."""
    return path.encode(errors="replace").decode()
