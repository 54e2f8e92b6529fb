"""What dialect B's documentation prints of /consult, as it prints it, from gateway, server and provider together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from tests.advisors.consulting import ENVIRONMENT
from tests.advisors.provider_server import ProviderServer, Step, provider_server, reply
from tests.advisors.wires import ANTHROPIC
from tests.gateway.places import bearer, calling, gateway_to, path
from tests.gateway.test_documented_b import AUTH, CONSULT, SESSION, UNKNOWN
from tests.servers import served

REASONING = (
    "OAuth 2.0 provides the strongest security guarantees for a multi-tenant API while supporting future integrations "
    "with third-party clients without requiring significant rework."
)
OUTPUT = {"recommendation": ["OAuth 2.0"], "reasoning": REASONING, "confidence": "high"}
WORKSPACE = "ws_5f9e3c2a1b8d4f7e6a5b3c2d"


@dataclass(frozen=True, kw_only=True)
class Documented:
    """A gateway, and the provider "anthropic"."""

    http: httpx.AsyncClient
    provider: ProviderServer

    async def ask(self, *questions: Any) -> str:
        body = {"sessionID": SESSION, "questions": questions or [AUTH]}
        created = await self.http.post(path("api", "v1", "workspaces", WORKSPACE, "questions"), json=body)
        request_id: str = created.json()["id"]
        return request_id

    async def post(self, request_id: str, action: str, body: Any) -> tuple[int, Any]:
        url = path("api", "v1", "workspaces", WORKSPACE, "questions", request_id, action)
        response = await self.http.post(url, json=body)
        return response.status_code, response.json()

    async def consult(self, request_id: str, **fields: Any) -> tuple[int, Any]:
        return await self.post(request_id, "consult", CONSULT | fields)


@asynccontextmanager
async def documented(folder: Path, *steps: Step, rate: str = "20/minute") -> AsyncIterator[Documented]:
    async with provider_server(*steps) as provider:
        settings = ANTHROPIC.provider(provider.address, models=[CONSULT["modelID"]], api_key_env="PROVIDER_KEY")
        consult = {"rate": rate, "providers": {"anthropic": settings}}
        async with (
            served(folder / "data", environment=ENVIRONMENT, consult=consult) as running,
            gateway_to(running.address) as gateway,
            calling(gateway, bearer(running.credential)) as http,
        ):
            yield Documented(http=http, provider=provider)


async def test_advice_that_can_be_posted_to_reply(tmp_path: Path) -> None:
    async with documented(tmp_path, reply(ANTHROPIC.output(OUTPUT))) as place:
        request_id = await place.ask()
        status, body = await place.consult(request_id)
        assert status == 200
        answers = body.pop("answers")
        assert body == {
            "recommendation": ["OAuth 2.0"],
            "reasoning": REASONING,
            "confidence": "high",
            "usage": {"promptTokens": 312, "completionTokens": 88, "totalTokens": 400},
        }
        assert await place.post(request_id, "reply", {"answers": answers}) == (200, True)


async def test_an_unknown_provider(tmp_path: Path) -> None:
    async with documented(tmp_path, reply(ANTHROPIC.output(OUTPUT))) as place:
        assert await place.consult(await place.ask(), providerID="nobody") == (
            400,
            {"data": None, "errors": [{"providerID": "Invalid provider identifier"}], "success": False},
        )


async def test_an_unknown_request(tmp_path: Path) -> None:
    async with documented(tmp_path, reply(ANTHROPIC.output(OUTPUT))) as place:
        assert await place.consult(UNKNOWN) == (
            404,
            {"name": "NotFoundError", "data": {"message": f"Question request {UNKNOWN} not found"}},
        )


async def test_an_output_that_lacks_a_field(tmp_path: Path) -> None:
    output = {name: value for name, value in OUTPUT.items() if name != "confidence"}
    async with documented(tmp_path, reply(ANTHROPIC.output(output))) as place:
        assert await place.consult(await place.ask()) == (
            502,
            {"error": "Model returned invalid structured output: missing 'confidence' field"},
        )


async def test_a_provider_that_fails(tmp_path: Path) -> None:
    async with documented(tmp_path, reply(ANTHROPIC.error("upstream"), 401)) as place:
        assert await place.consult(await place.ask()) == (
            502,
            {"error": "the provider refuses the key or what it asks for (HTTP 401)"},
        )


async def test_too_often(tmp_path: Path) -> None:
    async with documented(tmp_path, reply(ANTHROPIC.output(OUTPUT)), rate="1/minute") as place:
        request_id = await place.ask()
        await place.consult(request_id)
        status, body = await place.consult(request_id)
        wait = body.pop("retryAfterMs")
        assert (status, body) == (429, {"error": "Rate limit exceeded for consult endpoint"})
        assert 0 < wait <= 60_000


async def test_a_request_that_is_resolved(tmp_path: Path) -> None:
    async with documented(tmp_path, reply(ANTHROPIC.output(OUTPUT))) as place:
        request_id = await place.ask()
        await place.post(request_id, "reject", {})
        assert await place.consult(request_id) == (
            400,
            {"data": None, "errors": [{"requestID": "Question request is already resolved"}], "success": False},
        )


async def test_labels_that_repeat_are_answered_by_id(tmp_path: Path) -> None:
    output = OUTPUT | {"recommendation": [["OAuth 2.0"], ["Café", "something else"]]}
    cafe = {"question": "Where?", "options": [{"label": "Cafe\u0301"}, {"label": "Bar"}], "multiple": True}
    async with documented(tmp_path, reply(ANTHROPIC.output(output))) as place:
        request_id = await place.ask(AUTH, cafe)
        body = {name: CONSULT[name] for name in ("providerID", "modelID")}
        status, advice = await place.post(request_id, "consult", body)
        assert status == 200, advice
        assert advice["answers"] == [["OAuth 2.0"], ["Cafe\u0301", "something else"]]
        assert await place.post(request_id, "reply", {"answers": advice["answers"]}) == (200, True)
