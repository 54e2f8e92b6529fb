"""What the folder's tests share: among others a server for those that try every wire format."""

from collections.abc import AsyncIterator, Sequence
from importlib import import_module

import pytest
import pytest_asyncio
from tests.advisors.consulting import Advised, advised_over
from tests.advisors.wires import WIRES, Wire

from askd.advisors import advisor


@pytest.fixture(scope="session", autouse=True)
def providers() -> None:
    """The providers' packages: importing them takes seconds, which no consultation in a test is to wait for."""
    for name in ("anthropic", "google", "openai"):
        import_module(f"pydantic_ai.models.{name}")


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that failed are made again almost at once."""
    monkeypatch.setattr(advisor, "BACKOFF", 0.01)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def places(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Sequence[Advised]]:
    """One server with a provider for each wire format."""
    async with advised_over(WIRES, tmp_path_factory.mktemp("advisors")) as shared:
        yield shared


@pytest.fixture
def place(places: Sequence[Advised], wire: Wire) -> Advised:
    """The shared server with the provider of the test's wire format."""
    return next(place for place in places if place.wire is wire)
