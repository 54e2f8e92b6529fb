"""Whatever is sent, the answer is a clear refusal in the form of the path's dialect, and the gateway goes on."""

import asyncio
import json
import random
from typing import Any

import pytest
from tests.gateway.places import Place, asks
from tests.gateway.test_paths import form, raw

from askd.gateway import exchange, server
from askd.gateway.server import HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

JSON = {"content-type": "application/json"}
#: What no route takes for its body.
RUBBISH: dict[str, bytes] = {
    "a duplicate key": b'{"answers":[["A"]],"answers":[["A"]]}',
    "a duplicate key by another spelling": b'{"answers":[["A"]],"\\u0061nswers":[["A"]]}',
    "a duplicate key deep inside": b'{"questions":[{"question":{"a":1,"a":1}}]}',
    "NaN": b'{"answers":NaN}',
    "Infinity": b'{"question":{"prompt":[{"type":"json","value":-Infinity}],"type":"text"}}',
    "an overflowing number": b'{"question":{"prompt":[{"type":"json","value":1e999}],"type":"text"}}',
    "an integer beyond 2^53": b'{"expiresIn":9007199254740993}',
    "a lone surrogate": b'{"answers":[["\\ud800"]]}',
    "a lone surrogate in a key": b'{"\\udc00":1}',
    "a surrogate in UTF-8": b'{"answers":[["\xed\xa0\x80"]]}',
    "bytes that are no UTF-8": b'{"answers":[["\xff"]]}',
    "UTF-16": '{"answers":[["A"]]}'.encode("utf-16"),
    "a byte order mark": b'\xef\xbb\xbf{"answers":[["A"]]}',
    "depth": b'{"answers":' + b"[" * 60 + b"]" * 60 + b"}",
    "more depth than any stack": b"[" * 200_000,
    "trailing garbage": b'{"answers":[["A"]]} x',
    "two values": b"{}{}",
    "half a value": b'{"answers":[["A"',
    "a comment": b'{"answers":[["A"]]/**/}',
    "a trailing comma": b'{"answers":[["A"],]}',
    "a raw control character": b'{"answers":[["\x00"]]}',
    "an array": b"[]",
    "a string": b'"{}"',
    "a number": b"1",
    "a boolean": b"true",
    "JSON in a string": b'{"answers":"[[\\"A\\"]]","answer":"[]","question":"{}","questions":"[]","providerID":1}',
    "numbers for strings": b'{"answer":1,"answerId":1,"answers":[[1]],"question":1,"questions":[1],"sessionID":1}',
    "an unknown field": b'{"answers":[["A"]],"answer":"A","answerId":"a","by":"me"}',
}  # fmt: skip


def posts(place: Place, ask_id: str) -> dict[str, str]:
    """Every route with a body, and its dialect."""
    return {
        asks(): "a",
        asks(ask_id, "answer"): "a",
        place.questions(): "b",
        **{place.questions(ask_id, action): "b" for action in ("reply", "reject", "consult")},
        **{f"/question/{ask_id}/{action}": "opencode" for action in ("reply", "reject")},
    }


@pytest.mark.parametrize("kind", RUBBISH)
async def test_rubbish_is_refused_in_every_dialect_and_changes_nothing(place: Place, kind: str) -> None:
    ask = await place.ask()
    for url, dialect in posts(place, ask.id).items():
        response = await place.http.post(url, content=RUBBISH[kind], headers=JSON)
        assert response.status_code == 400, (url, response.text)
        assert response.headers["content-type"] == "application/json"
        assert form(response.json()) == dialect
        assert len(response.content) < 4096, "rubbish is not sent back by the kilobyte"
    assert await place.get(ask.id) == ask
    assert [request["id"] for request in await place.pending()] == [ask.id]


SEGMENTS = ("%", "%2", "%zz", "%FF", "%C0%AF", "%ED%A0%80", "%00", "%25", "%2E%2E", "%2F", "..", "%0D%0A", "x" * 5000)


@pytest.mark.parametrize("segment", SEGMENTS)
async def test_rubbish_in_a_path_is_refused_in_its_dialect(place: Place, segment: str) -> None:
    prefix = place.questions()
    for method, url, dialect in (
        ("GET", f"/v1/sessions/{segment}/turns/t/asks/que_x", "a"),
        ("GET", f"/v1/sessions/s/turns/{segment}/asks/que_x", "a"),
        ("GET", f"/v1/sessions/s/turns/t/asks/{segment}", "a"),
        ("GET", f"/api/v1/workspaces/{segment}/questions", "b"),
        ("POST", f"{prefix}/{segment}/reject", "b"),
        ("POST", f"/question/{segment}/reject", "opencode"),
    ):
        status, body = await _sent(place, method, url)
        assert status in (400, 403, 404), (url, body)
        # Dialect B has a form of its own for what is not found, which is that of opencode too.
        assert form(body) == ("opencode" if dialect == "b" and status == 404 else dialect)


async def _sent(place: Place, method: str, url: str) -> tuple[int, Any]:
    """The response to a path exactly as it is given, which HTTP clients would mend."""
    head = (
        f"{method} {url} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {place.credential}\r\nconnection: close\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection(place.http.base_url.host, place.http.base_url.port)
    writer.write(head.encode())
    async with asyncio.timeout(10):
        response = await reader.read()
    writer.close()
    start, _, body = response.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/json\r\n" in start
    return int(start.split(b" ")[1]), json.loads(body)


REQUEST = (
    b"POST /question/que_x/reply?workspace=w HTTP/1.1\r\nhost: x\r\nauthorization: Bearer %s\r\n"
    b"content-type: application/json\r\ncontent-length: 19\r\nconnection: close\r\n\r\n" + b'{"answers":[["A"]]}'
)


@pytest.mark.parametrize("seed", range(4))
async def test_damaged_requests_never_find_a_bug(
    place: Place, gateway: HttpServer, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Many are damaged so that their end never comes.
    monkeypatch.setattr(server, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(exchange, "BODY_SECONDS", 0.5)
    chance = random.Random(seed)  # noqa: S311
    whole = REQUEST % place.credential.encode()
    for response in await asyncio.gather(*(_damaged(gateway, whole, chance) for _ in range(50))):
        head, _, body = response.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 4"), response
        assert b"content-type: application/json" in head, response
        json.loads(body)
    assert (await place.http.get(asks())).json() == {"items": []}


async def _damaged(gateway: HttpServer, whole: bytes, chance: random.Random) -> bytes:
    damaged = bytearray(whole)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(damaged))
        damaged[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 3))
    return await raw(gateway, bytes(damaged))
