"""An HTTP server on loopback that answers as a model's provider does, or as one does that fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request as it came over the wire."""

    path: str
    headers: dict[str, str]
    body: Any


#: What becomes of a request: writes to the connection, which is closed afterwards.
Step = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def reply(body: Any, status: int = 200, **headers: str) -> Step:
    """A response. A body that is no bytes is sent as JSON; a header's name has _ for -."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {"content-type": "application/json"} | {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())

    async def step(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(f"HTTP/1.1 {status} x\r\n{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        await writer.drain()

    return step


def held(released: asyncio.Event, then: Step) -> Step:
    """Another step, once an event has happened."""

    async def step(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await released.wait()
        await then(reader, writer)

    return step


async def close(_: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
    """Close the connection without a word."""


async def endless(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A response that never ends."""
    writer.write(b"HTTP/1.1 200 x\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"1000\r\n" + b" " * 0x1000 + b"\r\n")
        await writer.drain()


@dataclass(kw_only=True)
class ProviderServer:
    """Does what its steps say, request by request; the last one is repeated."""

    address: str
    steps: list[Step] = field(default_factory=list)
    requests: list[Request] = field(default_factory=list)
    #: Requests that wait in hang(), and those of them whose client has left.
    hanging: int = 0
    abandoned: int = 0
    _serving: set[asyncio.Task[None]] = field(default_factory=set)

    async def hang(self, reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        """Say nothing until the client leaves."""
        self.hanging += 1
        with suppress(ConnectionError):
            await reader.read()
        self.abandoned += 1

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection until one of both sides closes it."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            while (request := await _read(reader)) is not None:
                self.requests.append(request)
                step = self.steps.pop(0) if len(self.steps) > 1 else self.steps[0]
                await step(reader, writer)
                if step in (close, endless) or step == self.hang:
                    break
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._serving.discard(task)
            writer.close()

    async def stop(self) -> None:
        """End what is being served."""
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(path=first.split()[1], headers=headers, body=json.loads(body) if body else None)


@asynccontextmanager
async def provider_server(*steps: Step) -> AsyncIterator[ProviderServer]:
    """A provider on a free port."""
    served = ProviderServer(address="", steps=list(steps))
    server = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    served.address = f"http://{host}:{port}"
    try:
        yield served
    finally:
        server.close()
        await served.stop()
