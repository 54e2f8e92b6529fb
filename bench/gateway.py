"""Requests a second of the REST gateway against a bare hop from HTTP to gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from urllib.parse import quote

from askd.cli.timing import repeat
from bench import requests
from bench.client import connect, take_turns
from bench.plan import Task
from bench.series import Series

CONCURRENT = 16
AGAINST = f"bare FastAPI hop to the bare echo, {CONCURRENT} concurrent"


class HttpConnection:
    """One kept-alive connection: the least client there is, since a whole one would take longer than either server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, credential: str) -> None:
        self._reader = reader
        self._writer = writer
        self._request = f"GET {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {credential}\r\n\r\n".encode()

    async def get(self) -> bytes:
        """The body of a response, which must be 200 and say how long it is."""
        self._writer.write(self._request)
        head = (await self._reader.readuntil(b"\r\n\r\n")).lower()
        assert head.startswith(b"http/1.1 200 "), head
        length = head.partition(b"content-length:")[2].partition(b"\r\n")[0]
        return await self._reader.readexactly(int(length))


@asynccontextmanager
async def connections(address: str, path: str, credential: str) -> AsyncIterator[list[HttpConnection]]:
    host, _, port = address.rpartition(":")
    async with AsyncExitStack() as stack:
        opened = []
        for _ in range(CONCURRENT):
            reader, writer = await asyncio.open_connection(host, int(port))
            stack.push_async_callback(writer.wait_closed)
            stack.callback(writer.close)
            opened.append(HttpConnection(reader, writer, path, credential))
        yield opened


async def gets(task: Task) -> list[Series]:
    """Gets of one ask in dialect A."""
    credential = task.askd.credential
    async with connect(task.askd.address, credential) as askd:
        session = "bench"
        asked = await askd.unary(requests.ASK)(requests.ask_in(task.plan.question, session, "turn", ""))
    path = f"/v1/sessions/{session}/turns/turn/asks/{quote(requests.asked_id(asked))}"
    async with (
        connections(task.base.http, "/echo", credential) as hops,
        connections(task.askd.http, path, credential) as ours,
    ):
        floor, askd_rates = await take_turns(task.plan.pairs, partial(rate, task, hops), partial(rate, task, ours))
    return [Series(name="http_get16", unit="calls/s", against=AGAINST, base=floor, askd=askd_rates)]


async def rate(task: Task, some: list[HttpConnection]) -> float:
    """Requests a second, one at a time on each connection."""
    free = list(some)

    async def get(_: int) -> None:
        connection = free.pop()
        await connection.get()
        free.append(connection)

    return (await repeat(get, concurrent=len(some), seconds=task.plan.seconds)).rate
