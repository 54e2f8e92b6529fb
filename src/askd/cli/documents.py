"""JSON that commands read and write."""

import json
import sys
from collections.abc import AsyncIterable, Iterable
from pathlib import Path
from typing import NoReturn

from askd.domain.errors import AskdError, Code

STANDARD_INPUT = "-"
_COMPACT = (",", ":")


def read(name: str, code: Code = Code.INVALID_ARGUMENTS) -> object:
    """The JSON document in a file, or in standard input for "-". AskdError with the code where it is none; duplicate
    keys and non-finite numbers are errors (CONTRACT section 2)."""
    try:
        data = sys.stdin.buffer.read() if name == STANDARD_INPUT else Path(name).read_bytes()
        return json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_no_number)
    except OSError as error:
        raise AskdError(code, f"{name}: {error.strerror}") from error
    except RecursionError as error:
        raise AskdError(code, f"{name}: nested too deeply") from error
    except ValueError as error:  # also what json and the decoding raise
        raise AskdError(code, f"{name}: {error}") from error


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} is repeated")
    return fields


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def write(document: object) -> None:
    """One document on standard output. Only ASCII, so that no encoding or terminal changes it."""
    print(json.dumps(document, indent=2))


def write_line(document: object) -> None:
    """One document on one line, at once."""
    print(json.dumps(document, separators=_COMPACT), flush=True)


async def write_array(documents: AsyncIterable[object]) -> None:
    """One array, an element on each line, written while it is read."""
    separator = "["
    async for document in documents:
        print(separator, json.dumps(document, separators=_COMPACT), sep="\n", end="")
        separator = ","
    print("[]" if separator == "[" else "\n]")


def as_list(document: object) -> Iterable[object]:
    """The elements of an array, or the one document that is none."""
    return document if isinstance(document, list) else [document]
