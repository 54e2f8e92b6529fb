"""Fixtures that every folder may use."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.clients import Client, connected
from tests.postgres.cluster import remove_shared
from tests.processes import ServerProcess, serving
from tests.servers import Served, served
from tests.store.backends import BACKENDS, Backend


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
def database_settings(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment that has a server use an empty database, of every kind in turn; the embedded one needs none."""
    backend: Backend = request.param
    if backend.upgrades_on_open:
        yield {}
        return
    url = backend.copy("", tmp_path)
    yield {"ASKD_DATABASE_URL": url}
    backend.give_back(url)


def pytest_sessionfinish() -> None:
    """Leave no database server behind."""
    remove_shared()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Served]:
    """A server in the test's own event loop."""
    async with served(tmp_path / "data") as running:
        yield running


@pytest.fixture
def admin(server: Served) -> Client:
    """The first key's client of `server`."""
    return server.admin


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    """A real `askd serve` on an empty folder."""
    with serving(tmp_path / "data") as running:
        yield running


@pytest.fixture
async def process_admin(process: ServerProcess) -> AsyncIterator[Client]:
    """The first key's client of `process`."""
    async with connected(process.address, process.credential) as client:
        yield client
