"""Credentials in HTTP, and what browsers may do with them."""

import base64

import pytest
from tests.gateway.places import Place, asks, bearer, calling, gateway_to
from tests.gateway.streams import listening
from tests.processes import ServerProcess

from askd.gateway.dialect_a import DIALECT as A
from askd.gateway.dialect_b import DIALECT as B
from askd.gateway.opencode import DIALECT as OPENCODE
from askd.gateway.routing import Route
from askd.gateway.settings import GatewaySettings

pytestmark = pytest.mark.asyncio(loop_scope="session")


def basic(credential: str, user: str = "opencode") -> dict[str, str]:
    return {"authorization": "Basic " + base64.b64encode(f"{user}:{credential}".encode()).decode()}


async def test_bearer_and_basic(place: Place) -> None:
    for headers in (
        bearer(place.credential),
        {"authorization": f"bearer  {place.credential}"},
        basic(place.credential),
        basic(place.credential, user=""),
        {"authorization": basic(place.credential)["authorization"].replace("Basic", "BASIC")},
    ):
        assert (await place.http.get(asks(), headers=headers)).status_code == 200, headers


@pytest.mark.parametrize(
    "value",
    [
        "", "Bearer", "Basic", "Basic !", "Basic " + base64.b64encode(b"nocolon").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(), "Digest x", "askd_x", "Bearer a b",
        "Bearer \u00e9", "Bearer " + "x" * 8000, "Basic " + base64.b64encode(b"u:askd_x\r\nx: y").decode(),
    ],
)  # fmt: skip
async def test_what_can_be_no_credential(place: Place, value: str) -> None:
    response = await place.http.get(asks(), headers={b"authorization": value.encode("latin-1")})
    assert response.status_code == 401
    assert "Bearer" in response.headers["www-authenticate"]


@pytest.mark.parametrize("route", [route for dialect in (A, B, OPENCODE) for route in dialect.routes])
async def test_every_route_needs_a_credential(place: Place, route: Route) -> None:
    del place.http.headers["authorization"]
    response = await place.http.request(route.method, route.path)
    assert response.status_code == 401
    assert response.headers["content-type"] == "application/json"
    assert "Bearer" in response.headers["www-authenticate"]


async def test_two_credentials_are_none(place: Place) -> None:
    headers = [("authorization", f"Bearer {place.credential}")] * 2
    assert (await place.http.get(asks(), headers=headers)).status_code == 401


async def test_a_missing_credential_is_noticed_before_the_body(place: Place) -> None:
    del place.http.headers["authorization"]
    response = await place.http.post(asks(), content=b"{", headers={"content-type": "text/plain"})
    assert (response.status_code, response.json()["error"]["code"]) == (401, "unauthenticated")
    assert response.headers.get_list("www-authenticate") == ["Bearer", 'Basic realm="askd", charset="UTF-8"']


async def test_a_program_with_bearer_is_not_asked_for_a_password(place: Place) -> None:
    response = await place.http.get(asks(), headers=bearer("askd_x"))
    assert response.headers.get_list("www-authenticate") == ["Bearer"]


PAGE = "https://page.example"


async def test_cross_origin_is_off(place: Place) -> None:
    response = await place.http.get(asks(), headers={"origin": PAGE})
    assert response.status_code == 200
    assert not [name for name in response.headers if name.startswith("access-control")]


async def test_a_listed_origin_may_list_answer_and_listen(place: Place, askd: ServerProcess) -> None:
    async with gateway_to(askd.address, GatewaySettings(cors_origins=(PAGE,))) as gateway, calling(gateway) as http:
        preflight = await http.options(
            place.questions("q", "reply"),
            headers={
                "origin": PAGE,
                "access-control-request-method": "POST",
                "access-control-request-headers": "authorization, content-type, idempotency-key, last-event-id",
            },
        )
        assert preflight.status_code == 200
        assert preflight.headers["access-control-allow-origin"] == PAGE
        http.headers.update({"origin": PAGE} | bearer(place.credential))
        listed = await http.get(place.questions())
        assert listed.headers["access-control-allow-origin"] == PAGE
        assert listed.headers["access-control-allow-credentials"] == "true"
        async with listening(http, place.questions("events")) as stream:
            assert stream.response.headers["access-control-allow-origin"] == PAGE
        refused = await http.get(asks(), headers=bearer("askd_x"))
        assert refused.headers["access-control-allow-origin"] == PAGE
        other = await http.get(place.questions(), headers={"origin": "https://other.example"})
        assert "access-control-allow-origin" not in other.headers
        forbidden = await http.options(
            place.questions(), headers={"origin": "https://other.example", "access-control-request-method": "GET"}
        )
        assert (forbidden.status_code, forbidden.headers["content-type"]) == (400, "application/json")


async def test_every_origin_may_call_but_not_with_the_browsers_own_credentials(
    place: Place, askd: ServerProcess
) -> None:
    async with gateway_to(askd.address, GatewaySettings(cors_origins=("*",))) as gateway, calling(gateway) as http:
        listed = await http.get(place.questions(), headers={"origin": PAGE} | bearer(place.credential))
        assert listed.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in listed.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"sec-fetch-site": "same-origin", "origin": "https://proxied.example"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site", "origin": PAGE}, 403),
        ({"sec-fetch-site": "same-site", "origin": PAGE}, 403),
        ({"origin": PAGE}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "https://listed.example", "sec-fetch-site": "cross-site"}, 200),
    ],
)
async def test_another_sites_page_cannot_use_a_remembered_password(
    place: Place, askd: ServerProcess, headers: dict[str, str], status: int
) -> None:
    ask = await place.ask()
    settings = GatewaySettings(cors_origins=("https://listed.example",))
    async with gateway_to(askd.address, settings) as gateway, calling(gateway, basic(place.credential)) as http:
        response = await http.post(place.questions(ask.id, "reject"), headers=headers)
        assert response.status_code == status
        # A page's own origin is the gateway's; and Bearer is never added by a browser itself.
        own = {"origin": f"http://{gateway.address}"}
        assert (await http.get(place.questions(), headers=headers)).status_code == 200
        second, third = await place.ask(), await place.ask()
        assert (await http.post(place.questions(second.id, "reject"), headers=own)).status_code == 200
        mine = headers | bearer(place.credential)
        assert (await http.post(place.questions(third.id, "reject"), headers=mine)).status_code == 200
