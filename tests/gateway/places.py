"""Where a test works: a workspace of its own behind a gateway, seen over HTTP and over gRPC."""

import ssl
import uuid
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
from tests.clients import Client, grant
from tests.questions import chosen, text_question

from askd.config import Address
from askd.gateway.app import create_app
from askd.gateway.server import HttpServer
from askd.gateway.settings import GatewaySettings
from askd.v1 import ask_pb2 as pb

#: Seconds of a request, but for those that are meant to last.
LIMIT = 10.0
# Made once: it takes longer than most tests, which need none.
_TRUST = ssl.create_default_context()


@dataclass(frozen=True, kw_only=True)
class Place:
    """A workspace, a key that is admin there and nowhere else, and callers with that key."""

    workspace: str
    credential: str
    key_id: str
    grpc: Client
    http: httpx.AsyncClient

    async def ask(self, *questions: pb.Question, **fields: Any) -> pb.AskState:
        """Ask over gRPC in session s and turn t."""
        fields = {"workspace_id": self.workspace, "session_id": "s", "turn_id": "t"} | fields
        return await self.grpc.ask(*questions or [text_question()], **fields)

    async def get(self, ask_id: str) -> pb.AskState:
        """The ask as gRPC shows it."""
        return await self.grpc.get(ask_id, workspace_id=self.workspace)

    async def answer(self, ask_id: str, *answers: pb.AnswerSubmission, **fields: Any) -> pb.AskState:
        return await self.grpc.answer(ask_id, *answers or [chosen("a")], workspace_id=self.workspace, **fields)

    async def reject(self, ask_id: str) -> pb.AskState:
        return await self.grpc.reject(ask_id, workspace_id=self.workspace)

    async def cancel(self, ask_id: str) -> pb.AskState:
        return await self.grpc.cancel(ask_id, workspace_id=self.workspace)

    def questions(self, *segments: str) -> str:
        """A path of dialect B."""
        return path("api", "v1", "workspaces", self.workspace, "questions", *segments)

    async def pending(self) -> list[Any]:
        """Dialect B's list."""
        response = await self.http.get(self.questions())
        assert response.status_code == 200, response.text
        listed: list[Any] = response.json()
        return listed


def path(*segments: str) -> str:
    """A path of segments, each percent-encoded."""
    return "/" + "/".join(quote(segment, safe="") for segment in segments)


def asks(*segments: str, session: str = "s", turn: str = "t") -> str:
    """A path of dialect A."""
    return path("v1", "sessions", session, "turns", turn, "asks", *segments)


def bearer(credential: str) -> dict[str, str]:
    return {"authorization": f"Bearer {credential}"}


@asynccontextmanager
async def gateway_to(upstream: str, settings: GatewaySettings | None = None) -> AsyncIterator[HttpServer]:
    """A gateway in the test's own loop, on a free port."""
    server = HttpServer(create_app(upstream, settings), Address("127.0.0.1", 0))
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def calling(gateway: HttpServer, headers: dict[str, str] | None = None) -> AsyncIterator[httpx.AsyncClient]:
    """An HTTP client of a gateway."""
    url = f"http://{gateway.address}"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=LIMIT, verify=_TRUST) as client:
        yield client


@asynccontextmanager
async def place_on(gateway: HttpServer, admin: Client) -> AsyncIterator[Place]:
    """A workspace that nothing else uses. Its name needs encoding in a path."""
    workspace = f"wörk/50% {uuid.uuid4()}"
    key = await admin.create_key(grant("admin", workspace))
    async with calling(gateway, bearer(key.secret)) as http:
        yield Place(
            workspace=workspace, credential=key.secret, key_id=key.key.id, grpc=admin.other(key.secret), http=http
        )


def choice(*labels: str, **fields: Any) -> dict[str, Any]:
    """A question of dialect B."""
    return {"question": "Which one?", "options": [{"label": label} for label in labels or ("Yes", "No")]} | fields


def asked(*questions: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """The body of dialect B's ask."""
    return {"sessionID": "s", "questions": list(questions) or [choice()]} | fields


def labels(options: Sequence[dict[str, str]]) -> list[str]:
    return [option["label"] for option in options]
