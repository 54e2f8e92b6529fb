"""A server whose providers are on loopback, and consultations on it."""

from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

from tests.advisors.provider_server import ProviderServer, Step, provider_server
from tests.advisors.wires import CHAT, Wire
from tests.clients import LIMIT, Client, Refusal, refusal
from tests.questions import choice_question
from tests.servers import Served, served

from askd.advisors import connection
from askd.v1 import ask_pb2
from askd.v1 import ask_service_pb2 as pb

#: The provider's key; nothing that a caller sees may hold it.
KEY = "sk-very-secret"
ENVIRONMENT = {"PROVIDER_KEY": KEY}
#: What the provider says of an error; nor may this.
UPSTREAM = "upstream says: quota of acme-corp, request 4711"


@dataclass(frozen=True, kw_only=True)
class Advised:
    """A server, a provider that it is configured with, and who consults it."""

    served: Served
    provider: ProviderServer
    wire: Wire
    provider_id: str = "p"

    def expect(self, *steps: Step) -> None:
        """Let the provider take these steps from now on, and forget what it was sent."""
        self.provider.steps = list(steps)
        self.provider.requests.clear()

    @property
    def admin(self) -> Client:
        return self.served.admin

    async def consult(self, ask_id: str, client: Client | None = None, **fields: Any) -> pb.ConsultAskResponse:
        """ConsultAsk, of the model "m" where nothing else is named."""
        client = client or self.admin
        request = pb.ConsultAskRequest(
            **{"workspace_id": "w", "ask_id": ask_id, "provider_id": self.provider_id, "model_id": "m"} | fields
        )
        return await client.asks.ConsultAsk(request, metadata=client.metadata, timeout=LIMIT)

    async def refused(self, consultation: Awaitable[object]) -> Refusal:
        """How a consultation is refused: in one line, with nothing in it that is nobody's business."""
        refused = await refusal(consultation)
        for secret in (KEY, UPSTREAM, "acme-corp", "http:", "127.0.0.1", self.provider.address):
            assert secret not in refused.message
        assert "\n" not in refused.message
        return refused

    async def ask(self, *questions: ask_pb2.Question) -> ask_pb2.AskState:
        """An ask that the advice of wires.ADVICE answers, where no questions are given."""
        return await self.admin.ask(*questions or [choice_question("a", "b")])


def own_addresses(address: str) -> AbstractContextManager[object]:
    """Puts an address in place of those that providers have of their own."""
    return mock.patch.dict(connection.ADDRESSES, dict.fromkeys(connection.ADDRESSES, address))


@asynccontextmanager
async def advised(
    folder: Path, *steps: Step, wire: Wire = CHAT, rate: str = "1000/minute", **settings: Any
) -> AsyncIterator[Advised]:
    """A server with the provider "p", which takes these steps, configured by `settings`."""
    async with provider_server(*steps) as provider:
        providers = {"p": wire.provider(provider.address, **{"api_key_env": "PROVIDER_KEY"} | settings)}
        consult = {"rate": rate, "providers": providers}
        with own_addresses(provider.address):
            async with served(folder / "data", environment=ENVIRONMENT, consult=consult) as running:
                yield Advised(served=running, provider=provider, wire=wire)


@asynccontextmanager
async def advised_over(wires: Sequence[Wire], folder: Path) -> AsyncIterator[Sequence[Advised]]:
    """One server with a provider for each wire format, which is called as the format is."""
    async with AsyncExitStack() as stack:
        providers = [await stack.enter_async_context(provider_server()) for _ in wires]
        settings = {
            wire.name: wire.provider(provider.address, api_key_env="PROVIDER_KEY")
            for wire, provider in zip(wires, providers, strict=True)
        }
        for wire, provider in zip(wires, providers, strict=True):
            if not settings[wire.name]["base_url"]:
                stack.enter_context(own_addresses(provider.address))
        consult = {"rate": "10000/minute", "providers": settings}
        running = await stack.enter_async_context(served(folder / "data", environment=ENVIRONMENT, consult=consult))
        yield [
            Advised(served=running, provider=provider, wire=wire, provider_id=wire.name)
            for wire, provider in zip(wires, providers, strict=True)
        ]
