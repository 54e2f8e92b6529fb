"""Reading Server-Sent Events as the specification says."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from tests.gateway.places import LIMIT


@dataclass(frozen=True, kw_only=True)
class Event:
    """One event: its name is "message" where none is given; `last_id` is the stream's id once it has been taken."""

    name: str
    data: Any
    last_id: str


class Stream:
    """An open event stream."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self.comments = 0
        self.retry = 0
        self._lines = response.aiter_lines()

    async def event(self) -> Event:
        """The next event. StopAsyncIteration where the stream has ended."""
        async with asyncio.timeout(LIMIT):
            while (found := await self._block()) is None:
                pass
        return found

    def __aiter__(self) -> "Stream":
        return self

    async def __anext__(self) -> Event:
        return await self.event()

    async def events(self, count: int) -> list[Event]:
        return [await self.event() for _ in range(count)]

    async def until(self, name: str) -> list[Event]:
        """The events up to one of this name, which is the last."""
        events = [await self.event()]
        while events[-1].name != name:
            events.append(await self.event())
        return events

    async def ends(self) -> None:
        """Nothing but comments comes any more."""
        try:
            event = await self.event()
        except StopAsyncIteration:
            return
        raise AssertionError(f"the stream goes on: {event}")

    async def comment(self) -> None:
        """Read on to the next comment; events before it are a mistake."""
        before = self.comments
        async with asyncio.timeout(LIMIT):
            while self.comments == before:
                assert await self._block() is None

    async def _block(self) -> Event | None:
        name, data = "message", []
        while line := await anext(self._lines):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match field:
                case "":
                    self.comments += 1
                case "event":
                    name = value
                case "data":
                    data.append(value)
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry = int(value)
                case _:
                    raise AssertionError(f"no field of an event: {line!r}")
        return Event(name=name, data=json.loads("\n".join(data)), last_id=self.last_id) if data else None


@asynccontextmanager
async def listening(http: httpx.AsyncClient, url: str, after: str = "", **params: str) -> AsyncIterator[Stream]:
    """An event stream that the server has accepted."""
    headers = {"accept": "text/event-stream"} | ({"last-event-id": after} if after else {})
    # Heartbeats are 15 s apart.
    timeout = httpx.Timeout(LIMIT, read=60)
    async with http.stream("GET", url, headers=headers, params=params or None, timeout=timeout) as response:
        if response.status_code != 200:
            await response.aread()
        assert response.status_code == 200, response.text
        assert response.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield Stream(response)
