"""A server for all tests of the folder; each test has a workspace of its own on it."""

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.cli.program import Program
from tests.client.restartable import RestartableServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestartableServer]:
    """A server that tests leave running."""
    server = RestartableServer(tmp_path_factory.mktemp("askd") / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[RestartableServer]:
    """A server that the test may kill and start."""
    server = RestartableServer(tmp_path / "data")
    server.start()
    yield server
    server.kill()


@pytest.fixture
def askd(shared_server: RestartableServer) -> Program:
    """The program, an admin in a workspace that nothing else uses."""
    return program_of(shared_server, ASKD_WORKSPACE=f"workspace {uuid4()}")


def program_of(server: RestartableServer, **settings: str) -> Program:
    """The program on the server's machine."""
    return Program({"ASKD_ADDRESS": server.address, "ASKD_DATA_DIR": str(server.data_dir)} | settings)
