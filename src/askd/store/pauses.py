"""Pauses in long work on the event loop, where transactions on PostgreSQL run, too."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from sqlalchemy import Connection
from sqlalchemy.util import await_

T = TypeVar("T")

#: Seconds of work between pauses. What cannot be divided may take longer.
SLICE = 0.005


class Pace:
    """When work is to pause."""

    def __init__(self) -> None:
        self._until = time.monotonic() + SLICE

    async def pause(self) -> None:
        """Let others run, where this one has run for a while."""
        if time.monotonic() > self._until:
            await asyncio.sleep(0)
            self._until = time.monotonic() + SLICE


def unhurried(connection: Connection, items: Iterable[T]) -> Iterator[T]:
    """The items, one after another, with pauses where the transaction has no thread of its own."""
    pace = Pace()
    for item in items:
        yield item
        if connection.dialect.is_async:
            await_(pace.pause())
