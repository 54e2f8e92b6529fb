"""Open watches and waits, and what ends them before their callers do: draining, or a caller that may look no longer."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from askd.domain.errors import AskdError, unavailable
from askd.domain.principals import Access, Caller, Principal, denied, unauthenticated


class Stream:
    """A watch or a wait of one caller. It sleeps on at most one future at a time."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self._ended: AskdError | None = None
        self._future: asyncio.Future[Any] | None = None

    def check(self) -> None:
        """Raise what ended the stream, if anything did."""
        if self._ended is not None:
            raise self._ended

    def sleeps_on(self, future: asyncio.Future[Any]) -> None:
        """Say which future the stream is about to await."""
        self.check()
        self._future = future

    def end(self, error: AskdError) -> None:
        """End the stream with an error: now if it sleeps, else when it looks next."""
        self._ended = self._ended or error
        if self._future is not None and not self._future.done():
            self._future.set_exception(self._ended)


class Streams:
    """All open streams."""

    def __init__(self) -> None:
        self._open: set[Stream] = set()
        self._closed: AskdError | None = None

    @contextmanager
    def open(self, access: Access) -> Iterator[Stream]:
        """A stream for as long as it lasts."""
        if self._closed is not None:
            raise self._closed
        stream = Stream(access)
        self._open.add(stream)
        try:
            yield stream
        finally:
            self._open.discard(stream)

    def principals(self) -> set[Principal]:
        """Who has streams open."""
        return {stream.access.principal for stream in self._open}

    def review(self, callers: Mapping[Principal, Caller | AskdError], now: int) -> None:
        """End the streams whose callers may no longer look at what they show."""
        for stream in list(self._open):
            if error := _verdict(stream.access, callers.get(stream.access.principal), now):
                stream.end(error)

    def close(self) -> None:
        """End every stream with unavailable and open no more, so that clients go to another server."""
        self._closed = unavailable("the server is draining")
        for stream in list(self._open):
            stream.end(self._closed)


def _verdict(access: Access, caller: Caller | AskdError | None, now: int) -> AskdError | None:
    if access.expires_at is not None and access.expires_at <= now:
        return unauthenticated()
    if isinstance(caller, AskdError):
        return caller
    if caller is None:  # opened since the callers were looked up
        return None
    try:
        current = caller.enter(access.workspace_id)
    except AskdError as error:
        return error
    return None if current.covers(access) else denied("a grant was removed")
