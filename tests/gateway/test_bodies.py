"""Bodies: their size, their type and their absence."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from tests.gateway.places import Place, asks

pytestmark = pytest.mark.asyncio(loop_scope="session")

MIB = 1024 * 1024
QUESTION = b'{"question":{"prompt":"?","type":"text"}}'
JSON = {"content-type": "application/json"}


def padded(size: int) -> bytes:
    """A valid body of so many bytes."""
    return QUESTION[:-1] + b" " * (size - len(QUESTION)) + b"}"


async def pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body in chunks, whose length is not declared."""
    for begin in range(0, len(body), 65536):
        yield body[begin : begin + 65536]


async def test_two_mebibytes_are_taken(place: Place) -> None:
    for content in (padded(2 * MIB), pieces(padded(2 * MIB))):
        assert (await place.http.post(asks(), content=content, headers=JSON)).status_code == 201


@pytest.mark.parametrize("size", [2 * MIB + 1, 8 * MIB])
@pytest.mark.parametrize("chunked", [False, True])
async def test_a_byte_more_is_too_large(place: Place, size: int, chunked: bool) -> None:
    content: Any = pieces(padded(size)) if chunked else padded(size)
    response = await place.http.post(asks(), content=content, headers=JSON)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "payload_too_large")
    # The connection is as good as before.
    assert (await place.http.get(asks())).json() == {"items": []}


async def test_too_large_in_the_forms_of_the_other_dialects(place: Place) -> None:
    b = await place.http.post(place.questions(), content=b" " * (3 * MIB), headers=JSON)
    assert (b.status_code, list(b.json()["errors"][0])) == (413, ["payload_too_large"])
    opencode = await place.http.post("/question/q/reply", content=b" " * (3 * MIB), headers=JSON)
    assert (opencode.status_code, opencode.json()["_tag"]) == (413, "InvalidRequestError")


@pytest.mark.parametrize(
    "kind",
    [
        "application/json", "application/json;charset=utf-8", "application/json; v=1; charset=utf8",
        'application/json; charset="UTF-8"', "Application/JSON",
    ],
)  # fmt: skip
async def test_types_that_are_json(place: Place, kind: str) -> None:
    response = await place.http.post(asks(), content=QUESTION, headers={"content-type": kind})
    assert response.status_code == 201


@pytest.mark.parametrize(
    "kind",
    [
        None, "", "text/plain", "application/x-www-form-urlencoded", "application/jsonp", "application/json, text/html",
        "application/json; charset=latin-1", "multipart/form-data; boundary=application/json", "text/json",
    ],
)  # fmt: skip
async def test_types_that_are_not(place: Place, kind: str | None) -> None:
    headers = {} if kind is None else {"content-type": kind}
    response = await place.http.post(asks(), content=QUESTION, headers=headers)
    assert (response.status_code, response.json()["error"]["code"]) == (415, "unsupported_media_type")
    rejection = await place.http.post(place.questions("que_x", "reject"), content=b"{}", headers=headers)
    assert rejection.status_code == 415


@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
async def test_the_type_of_no_body_is_nothing(place: Place, kind: str) -> None:
    ask = await place.ask()
    response = await place.http.post(place.questions(ask.id, "reject"), headers={"content-type": kind})
    assert response.status_code == 200


async def test_a_body_that_is_needed(place: Place) -> None:
    for url in (asks(), asks("que_x", "answer")):
        response = await place.http.post(url, headers=JSON)
        assert (response.status_code, response.json()["error"]["details"]) == (400, {"field": "body"})
    for url in (place.questions(), place.questions("q", "reply"), place.questions("q", "consult")):
        response = await place.http.post(url)
        assert (response.status_code, list(response.json()["errors"][0])) == (400, ["body"])


@pytest.mark.parametrize("body", [b"{", b"\xff", b'{"a":1,"a":2}', b"{}{}", b"[" * 5000, b"NaN"])
async def test_malformed_json(place: Place, body: bytes) -> None:
    response = await place.http.post(asks(), content=body, headers=JSON)
    assert (response.status_code, response.json()["error"]["details"]) == (400, {"field": "body"})


async def test_the_body_of_a_get_is_nothing(place: Place) -> None:
    response = await place.http.request("GET", asks(), content=b"x" * MIB, headers={"content-type": "text/plain"})
    assert response.json() == {"items": []}
    assert (await place.http.get(asks())).status_code == 200


async def test_a_client_that_leaves_inside_its_body(place: Place) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield QUESTION[:10]
        raise httpx.WriteError("gone")

    with pytest.raises(httpx.WriteError):
        await place.http.post(asks(), content=broken(), headers=JSON)
    assert (await place.http.get(asks())).json() == {"items": []}
