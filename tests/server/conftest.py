"""Every test of a server in the test's own event loop runs on every database."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.servers import Served, served
from tests.store.backends import BACKENDS, Backend


@pytest.fixture(params=BACKENDS, ids=lambda backend: backend.name)
async def server(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Served]:
    """A server in the test's own event loop."""
    backend: Backend = request.param
    data_dir = tmp_path / "data"
    if backend.upgrades_on_open:
        async with served(data_dir) as running:
            yield running
        return
    data_dir.mkdir(mode=0o700)
    url = backend.copy("", tmp_path)
    async with served(data_dir, database={"url": url}) as running:
        yield running
    backend.give_back(url)
