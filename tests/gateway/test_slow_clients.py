"""Clients that never come to the end of what they send keep neither memory nor a connection."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from tests.gateway.places import Place, asks, bearer, calling, gateway_to
from tests.gateway.streams import listening
from tests.processes import ServerProcess
from tests.questions import text_question

from askd.gateway import exchange, server
from askd.gateway.server import HEAD_BYTES, HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

#: Seconds in which a gateway that has lost patience has said so.
SOON = 10.0
GET = b"GET /healthz HTTP/1.1\r\nhost: x\r\n"


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A connection, byte by byte."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_until_refused(self, piece: bytes) -> int:
        """Send a piece again and again until the gateway closes the connection. Returns how many bytes it took."""
        taken = 0
        async with asyncio.timeout(SOON):
            try:
                while not self.reader.at_eof():
                    await self.send(piece)
                    taken += len(piece)
            except ConnectionError:
                pass
        return taken

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        async with asyncio.timeout(SOON):
            return await self.reader.read()

    async def response(self) -> tuple[int, Any]:
        """The status and the body of the next response."""
        async with asyncio.timeout(SOON):
            head = (await self.reader.readuntil(b"\r\n\r\n")).lower()
            assert b"content-type: application/json\r\n" in head
            length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
            return int(head.split(b" ")[1]), json.loads(await self.reader.readexactly(length))


@asynccontextmanager
async def wired(gateway: HttpServer) -> AsyncIterator[Wire]:
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)  # so that who does not read is soon noticed
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (gateway.address.host, gateway.address.port))
    reader, writer = await asyncio.open_connection(sock=sock)
    try:
        yield Wire(reader=reader, writer=writer)
    finally:
        writer.close()


TOO_LARGE = {"error": {"code": "head_too_large", "message": f"the head is over {HEAD_BYTES} bytes"}}
TOO_LATE = {"error": {"code": "request_timeout", "message": "the request did not come in time"}}


@pytest.mark.parametrize("begin", [b"GET /healthz?", b"GET /healthz HTTP/1.1\r\nx: ", GET])
async def test_a_head_without_an_end_is_refused(gateway: HttpServer, begin: bytes) -> None:
    async with wired(gateway) as wire:
        await wire.send(begin)
        piece = b"x: y\r\n" * 100 if begin == GET else b"x" * 600
        for _ in range(HEAD_BYTES // len(piece) + 1):
            await wire.send(piece)
        assert await wire.response() == (431, TOO_LARGE)
        assert await wire.rest() == b""


async def test_a_head_of_many_megabytes_is_not_read(gateway: HttpServer) -> None:
    async with wired(gateway) as wire:
        await wire.send(b"GET /healthz HTTP/1.1\r\nx: ")
        # What the sockets hold is read, no more.
        assert await wire.send_until_refused(b"x" * 65536) < 64 * 1024 * 1024


async def test_what_follows_a_body_is_bounded_too(gateway: HttpServer) -> None:
    chunked = b"POST /question/q/reject HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
    async with wired(gateway) as wire:
        await wire.send(chunked)
        assert (await wire.response())[0] == 401
        await wire.send_until_refused(b"x: y\r\n" * 1000)


async def test_a_large_head_that_ends_is_taken(gateway: HttpServer) -> None:
    async with wired(gateway) as wire:
        await wire.send(GET + b"x: " + b"y" * (HEAD_BYTES // 2) + b"\r\n\r\n")
        assert await wire.response() == (200, {"status": "serving"})


async def test_who_sends_half_a_head_is_cut_off(gateway: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)
    async with wired(gateway) as silent, wired(gateway) as half, wired(gateway) as again:
        await half.send(GET)
        await again.send(GET + b"\r\n")
        assert (await again.response())[0] == 200
        await again.send(GET)
        assert await half.response() == (408, TOO_LATE)
        assert await again.response() == (408, TOO_LATE)
        for wire in (silent, half, again):
            assert await wire.rest() == b""


async def test_streams_and_waits_outlast_any_patience(
    place: Place, gateway: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.1)
    ask = await place.ask()
    async with listening(place.http, "/event") as stream:
        await stream.event()
        waited = await place.http.get(asks(ask.id), params={"wait": "1"})
        assert waited.json()["status"] == "pending"
        await place.reject(ask.id)
        assert (await stream.event()).data["type"] == "question.rejected"


async def test_a_body_without_an_end_is_refused_in_the_form_of_its_dialect(
    place: Place, gateway: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.1)

    async def refused(url: str) -> tuple[int, Any]:
        head = f"POST {url} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {place.credential}\r\n"
        async with wired(gateway) as wire:
            await wire.send(f"{head}content-type: application/json\r\ncontent-length: 20\r\n\r\n{{".encode())
            response = await wire.response()
            assert await wire.rest() == b""
        return response

    message = "the body did not come in time"
    in_b = {"data": None, "errors": [{"request_timeout": message}], "success": False}
    in_opencode = {"_tag": "InvalidRequestError", "message": message, "kind": "request_timeout"}
    assert await refused(asks()) == (408, {"error": {"code": "request_timeout", "message": message}})
    assert await refused(place.questions("q", "reply")) == (408, in_b)
    assert await refused("/question/q/reply") == (408, in_opencode)


async def test_a_reader_that_does_not_read_delays_itself_only_and_no_stop(
    place: Place, askd: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "GRACE", 1)
    count, large = 60, text_question("x" * 200_000)  # more than sockets hold
    async with gateway_to(askd.address) as own, calling(own, bearer(place.credential)) as http, wired(own) as stuck:
        authorization = f"authorization: Bearer {place.credential}\r\n"
        await stuck.send(f"GET {place.questions('events')} HTTP/1.1\r\nhost: x\r\n{authorization}\r\n".encode())
        await stuck.reader.readuntil(b"synced")
        async with listening(http, place.questions("events")) as stream:
            await stream.until("synced")
            made = [(await place.ask(large, turn_id=str(number))).id for number in range(count)]
            assert [event.data["request"]["id"] for event in await stream.events(count)] == made
            held = [protocol.transport.get_write_buffer_size() for protocol in own._uvicorn.server_state.connections]
            assert 0 < max(held) < 1024 * 1024
        async with asyncio.timeout(SOON):
            await own.stop()
