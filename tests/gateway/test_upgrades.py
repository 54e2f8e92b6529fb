"""Clients that offer to speak another protocol are answered in this one, and lose nothing of what they sent."""

import asyncio
import json
import shutil

import pytest
from tests.gateway.loud import skip_loudly
from tests.gateway.places import Place, asks
from tests.gateway.test_slow_clients import Wire, wired

from askd.gateway.server import HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

BODY = b'{"question":{"prompt":"\\r\\nUpgrade: h2c","type":"text"}}'
LENGTH = b"content-length: %d\r\n\r\n%s" % (len(BODY), BODY)
CHUNKED = b"transfer-encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
H2C = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n"
OTHERS = b"connection: UPGRADE\r\nUPGRADE: h2c, websocket\r\n"


@pytest.mark.parametrize("rest", [LENGTH, CHUNKED], ids=["whole", "chunked"])
@pytest.mark.parametrize("offer", [H2C, OTHERS], ids=["h2c", "others"])
async def test_a_body_behind_an_offer_is_read(place: Place, gateway: HttpServer, offer: bytes, rest: bytes) -> None:
    head = f"POST {asks()} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {place.credential}\r\n".encode()
    request = head + b"content-type: application/json\r\n" + offer + rest
    begin = request.index(b"\r\n\r\n")
    async with wired(gateway) as wire:
        # At once, head and body apart, and the head in two.
        for pieces in ((request,), (request[: begin + 4], request[begin + 4 :]), (request[:20], request[20:])):
            status, ask = await _sent(wire, *pieces)
            assert status == 201, ask
            assert ask["question"]["prompt"][0]["text"] == json.loads(BODY)["question"]["prompt"]
        # The connection goes on as it was.
        assert (await _sent(wire, b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + offer + b"\r\n"))[0] == 200


async def _sent(wire: Wire, *pieces: bytes) -> tuple[int, dict[str, dict[str, list[dict[str, str]]]]]:
    for piece in pieces:
        await wire.send(piece)
        await asyncio.sleep(0)  # so that each comes on its own
    return await wire.response()


async def test_curl_with_http_2(place: Place, gateway: HttpServer, request: pytest.FixtureRequest) -> None:
    if shutil.which("curl") is None:
        skip_loudly(request, "curl is missing: a client that offers HTTP/2 was NOT tried against the gateway")
    process = await asyncio.create_subprocess_exec(
        "curl", "-sS", "--http2", "--max-time", "20", "-H", f"Authorization: Bearer {place.credential}",
        "-H", "Content-Type: application/json", "-d", BODY, f"http://{gateway.address}{asks()}",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    said, _ = await process.communicate()
    assert json.loads(said)["status"] == "pending"
