"""A server for all tests of a folder; each test has a workspace of its own on it."""

from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from tests.client.restartable import RestartableServer

from askd.client import AsyncClient


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartableServer]:
    """A server that tests leave running."""
    server = RestartableServer(tmp_path_factory.mktemp("askd") / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def mortal_server(shared_server: RestartableServer) -> Iterator[RestartableServer]:
    """The same server, for a test that kills it."""
    yield shared_server
    shared_server.revive()


@pytest.fixture
def workspace() -> str:
    """A workspace that nothing else uses."""
    return f"workspace {uuid4()}"


@pytest.fixture
async def client(shared_server: RestartableServer, workspace: str) -> AsyncIterator[AsyncClient]:
    """An admin's client in the test's workspace."""
    async with AsyncClient(shared_server.address, shared_server.key, workspace=workspace) as opened:
        yield opened
