"""Paths are split first and decoded once; what is unknown is refused in the form of its dialect."""

import asyncio
from typing import Any

import pytest
from tests.gateway.places import Place, asks

from askd.gateway.refusals import RefusalError
from askd.gateway.routing import split
from askd.gateway.server import HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = {"question": {"prompt": "?", "type": "text"}}
NAMES = [
    "a/b",
    "a%2Fb",
    "100%",
    "%",
    "a?b#c",
    "ä ö",
    "a+b",
    "asks",
    "a;b=c",
    "\U0001f600",
    "a\\b",
    "a:b@c",
    "x" * 128,
]


@pytest.mark.parametrize("name", NAMES)
async def test_identifiers_are_decoded_exactly_once(place: Place, name: str) -> None:
    created = await place.http.post(asks(session=name, turn=name), json=QUESTION)
    assert created.status_code == 201, created.text
    ask = created.json()
    assert (ask["sessionId"], ask["turnId"]) == (name, name)
    listed = await place.http.get(asks(session=name, turn=name))
    assert [item["id"] for item in listed.json()["items"]] == [ask["id"]]
    assert (await place.get(ask["id"])).session_id == name


@pytest.mark.parametrize("name", [" ", "\t", "\u2003", "\x00", "a\x7f", "x" * 129, "ä" * 65])
async def test_identifiers_that_are_none(place: Place, name: str) -> None:
    refused = await place.http.post(asks(session=name), json=QUESTION)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_arguments")
    assert refused.json()["error"]["details"] == {"field": "sessionId"}


@pytest.mark.parametrize(
    ("raw", "segments"),
    [
        (b"/", [""]),
        (b"/a/b", ["a", "b"]),
        (b"/a%2Fb/c%252F", ["a/b", "c%2F"]),
        (b"//a/", ["", "a", ""]),
        (b"/%71uestion", ["question"]),
        (b"/%F0%9F%98%80", ["\U0001f600"]),
    ],
)
async def test_segments(raw: bytes, segments: list[str]) -> None:
    assert split(raw) == segments


@pytest.mark.parametrize("raw", [b"/%", b"/%f", b"/%gg", b"/%FF", b"/%ED%A0%80", b"/a%2", b"/%\xc3\xa9"])
async def test_segments_that_are_no_text(raw: bytes) -> None:
    with pytest.raises(RefusalError) as raised:
        split(raw)
    assert (raised.value.status, raised.value.field) == (400, "path")


def form(body: Any) -> str:
    """The dialect that an error is in."""
    if "error" in body:
        return "a"
    return "b" if body.keys() == {"data", "errors", "success"} else "opencode"


@pytest.mark.parametrize(
    ("method", "url", "status", "dialect", "allow"),
    [
        ("GET", "/", 404, "a", None),
        ("GET", "/nothing", 404, "a", None),
        ("GET", "/v1", 404, "a", None),
        ("GET", "/v1/sessions//turns/t/asks", 404, "a", None),
        ("GET", "/v1/sessions/s/turns/t/asks/", 404, "a", None),
        ("GET", "/v2/sessions/s/turns/t/asks", 404, "a", None),
        ("PUT", "/v1/sessions/s/turns/t/asks", 405, "a", "GET, POST"),
        ("DELETE", "/v1/sessions/s/turns/t/asks/a", 405, "a", "GET"),
        ("GET", "/v1/sessions/s/turns/t/asks/a/answer", 405, "a", "POST"),
        ("OPTIONS", "/v1/sessions/s/turns/t/asks", 405, "a", "GET, POST"),
        ("GET", "/v1/sessions/%FF/turns/t/asks", 400, "a", None),
        ("GET", "/api", 404, "opencode", None),
        ("GET", "/api/v1/workspaces/w/questions/q", 404, "opencode", None),
        ("GET", "/api/v1/workspaces//questions", 404, "opencode", None),
        ("PATCH", "/api/v1/workspaces/w/questions", 405, "b", "GET, POST"),
        ("POST", "/api/v1/workspaces/w/questions/events", 405, "b", "GET"),
        ("GET", "/api/v1/workspaces/w/questions/q/reply", 405, "b", "POST"),
        ("GET", "/api/v1/workspaces/%/questions", 400, "b", None),
        ("POST", "/question", 405, "opencode", "GET"),
        ("GET", "/question/q/reply", 405, "opencode", "POST"),
        ("GET", "/question/q", 404, "opencode", None),
        ("POST", "/event", 405, "opencode", "GET"),
        ("POST", "/healthz", 405, "a", "GET"),
        ("GET", "/openapi", 404, "a", None),
    ],
)  # fmt: skip
async def test_the_table_of_paths(
    place: Place, method: str, url: str, status: int, dialect: str, allow: str | None
) -> None:
    response = await place.http.request(method, url)
    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert form(response.json()) == dialect
    assert response.headers.get("allow") == allow


async def test_an_unknown_path_of_dialect_b_is_its_not_found_error(place: Place) -> None:
    response = await place.http.get("/api/v1/nothing")
    assert response.json() == {"name": "NotFoundError", "data": {"message": "there is no such path"}}


async def test_head_has_no_body(place: Place) -> None:
    response = await place.http.head(place.questions())
    assert (response.status_code, response.content) == (405, b"")


async def raw(gateway: HttpServer, request: bytes) -> bytes:
    """What the gateway says to bytes."""
    reader, writer = await asyncio.open_connection(gateway.address.host, gateway.address.port)
    writer.write(request)
    async with asyncio.timeout(5):
        response = await reader.read()
    writer.close()
    return response


async def test_dot_segments_are_identifiers_like_others(place: Place, gateway: HttpServer) -> None:
    request = f"GET /v1/sessions/../turns/./asks HTTP/1.0\r\nAuthorization: Bearer {place.credential}\r\n\r\n"
    assert b'{"items":[]}' in await raw(gateway, request.encode())


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nbad header\r\n\r\n",
    ],
)
async def test_what_is_not_even_http_is_refused_in_json(gateway: HttpServer, request_bytes: bytes) -> None:
    head, _, body = (await raw(gateway, request_bytes + b"")).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 "), head
    assert b"application/json" in head
    assert b'{"error":{"code":"invalid_arguments"' in body
