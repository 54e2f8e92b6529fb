"""Typed reading of JSON objects: nothing is coerced, nothing unknown passes, errors name the path."""

from collections.abc import Collection
from typing import Any

from google.protobuf.duration_pb2 import Duration

from askd.domain.canonical import Json
from askd.gateway.refusals import invalid


class Fields:
    """The fields of a JSON object that lies at `path` of a body (empty: is the body)."""

    def __init__(self, value: Json, path: str, known: Collection[str]) -> None:
        self._path = path
        if not isinstance(value, dict):
            raise invalid(path or "body", "must be an object")
        self._fields: dict[str, Any] = value
        for name in value:
            if name not in known:
                raise invalid(self.at(name), "is no field of this object")

    def __contains__(self, name: str) -> bool:
        return name in self._fields

    def at(self, name: str) -> str:
        """The path of a field."""
        return f"{self._path}.{name}" if self._path else name

    def required(self, name: str) -> Any:
        """A field of any type that must be there."""
        if name not in self._fields:
            raise invalid(self.at(name), "is required")
        return self._fields[name]

    def text(self, name: str) -> str:
        """A string that must be there."""
        value = self.required(name)
        if not isinstance(value, str):
            raise invalid(self.at(name), "must be a string")
        return value

    def optional_text(self, name: str) -> str:
        """A string, empty when absent."""
        return self.text(name) if name in self._fields else ""

    def optional_whole(self, name: str) -> int | None:
        """A whole number, however it is spelled; None when absent."""
        if name not in self._fields:
            return None
        value = self._fields[name]
        if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
            raise invalid(self.at(name), "must be a whole number")
        return int(value)

    def span(self, name: str) -> Duration | None:
        """A span in whole seconds; None when absent."""
        seconds = self.optional_whole(name)
        return None if seconds is None else Duration(seconds=seconds)

    def flag(self, name: str, default: bool) -> bool:
        """A boolean."""
        value = self._fields.get(name, default)
        if not isinstance(value, bool):
            raise invalid(self.at(name), "must be true or false")
        return value

    def array(self, name: str) -> list[Any]:
        """An array that must be there."""
        value = self.required(name)
        if not isinstance(value, list):
            raise invalid(self.at(name), "must be an array")
        return value
