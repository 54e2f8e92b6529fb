"""What a scenario expects against what came: see Expectations and Variables in README.md."""

import re
from collections.abc import Mapping
from typing import Any

_VARIABLE = re.compile(r"\$\{([\w.]+)\}")
_MISSING = object()


def filled(value: Any, variables: Mapping[str, Any]) -> Any:
    """A value of a scenario with its variables replaced and its repetitions written out."""
    match value:
        case str():
            return _text(value, variables)
        case list():
            return [filled(item, variables) for item in value]
        case {"$repeat": [item, count]}:
            item = filled(item, variables)
            return item * count if isinstance(item, str) else [item] * count
        case dict():
            return {name: filled(item, variables) for name, item in value.items()}
    return value


def _text(text: str, variables: Mapping[str, Any]) -> Any:
    if whole := _VARIABLE.fullmatch(text):
        return variables[whole[1]]
    return _VARIABLE.sub(lambda found: str(variables[found[1]]), text)


def at(path: str, value: Any) -> Any:
    """The part of a result that a path leads to."""
    for name in path.split("."):
        value = value[int(name)] if isinstance(value, list) else value[name]
    return value


def check(expected: Any, actual: Any, path: str = "result") -> None:
    """AssertionError that names the place where a result is not as expected."""
    match expected:
        case {"$absent": True}:
            assert actual is _MISSING, f"{path}: expected nothing, got {actual!r}"
        case {"$any": True}:
            assert actual is not _MISSING, f"{path}: missing"
        case {"$match": pattern}:
            assert isinstance(actual, str), f"{path}: expected a string, got {_shown(actual)}"
            assert re.fullmatch(pattern, actual), f"{path}: {actual!r} does not match {pattern!r}"
        case {"$length": length}:
            assert isinstance(actual, list), f"{path}: expected an array, got {_shown(actual)}"
            assert len(actual) == length, f"{path}: expected {length} items, got {len(actual)}"
        case {"$not": other}:
            assert not matches(other, actual), f"{path}: is {_shown(actual)}"
        case dict():
            assert isinstance(actual, dict), f"{path}: expected an object, got {_shown(actual)}"
            for name, item in expected.items():
                check(item, actual.get(name, _MISSING), f"{path}.{name}")
        case list():
            assert isinstance(actual, list), f"{path}: expected an array, got {_shown(actual)}"
            assert len(actual) == len(expected), f"{path}: expected {len(expected)} items, got {_shown(actual)}"
            for index, item in enumerate(expected):
                check(item, actual[index], f"{path}.{index}")
        case _:
            same = actual == expected and isinstance(actual, bool) is isinstance(expected, bool)
            assert same, f"{path}: expected {_shown(expected)}, got {_shown(actual)}"


def matches(expected: Any, actual: Any) -> bool:
    """Whether a result is as expected."""
    try:
        check(expected, actual)
    except AssertionError:
        return False
    return True


def _shown(value: Any) -> str:
    return "nothing" if value is _MISSING else repr(value)[:500]
