"""Every test of a server, in the test's own event loop or a process of its own, runs on every database."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.processes import ServerProcess, serving
from tests.servers import Served, served


@pytest.fixture
async def server(database_settings: dict[str, str], tmp_path: Path) -> AsyncIterator[Served]:
    """A server in the test's own event loop."""
    async with served(tmp_path / "data", environment=database_settings) as running:
        yield running


@pytest.fixture
def process(database_settings: dict[str, str], tmp_path: Path) -> Iterator[ServerProcess]:
    """A real `askd serve` on an empty database."""
    with serving(tmp_path / "data", **database_settings) as running:
        yield running
