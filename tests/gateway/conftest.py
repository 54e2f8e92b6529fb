"""One server and one gateway for the tests of this folder, in one event loop; each test has a workspace of its own."""

from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
from tests.clients import Client, connected
from tests.gateway.places import Place, gateway_to, place_on
from tests.processes import ServerProcess, serving

from askd.gateway.server import HttpServer


@pytest.fixture(scope="session")
def askd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that tests share and leave running."""
    with serving(tmp_path_factory.mktemp("gateway") / "data") as server:
        yield server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def root(askd: ServerProcess) -> AsyncIterator[Client]:
    """The first key's client."""
    async with connected(askd.address, askd.credential) as client:
        yield client


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(askd: ServerProcess) -> AsyncIterator[HttpServer]:
    """A gateway in front of the shared server."""
    async with gateway_to(askd.address) as server:
        yield server


@pytest_asyncio.fixture(loop_scope="session")
async def place(gateway: HttpServer, root: Client) -> AsyncIterator[Place]:
    """The test's workspace."""
    async with place_on(gateway, root) as opened:
        yield opened
