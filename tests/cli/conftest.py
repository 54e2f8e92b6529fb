"""A server for all tests of the folder; each test has a workspace of its own on it."""

from collections.abc import Iterator
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
def mortal_server(shared_server: RestartableServer) -> Iterator[RestartableServer]:
    """The same server, for a test that kills it."""
    yield shared_server
    shared_server.revive()


@pytest.fixture
def askd(shared_server: RestartableServer) -> Program:
    """The program, an admin in a workspace that nothing else uses."""
    return Program(
        {
            "ASKD_ADDRESS": shared_server.address,
            "ASKD_DATA_DIR": str(shared_server.data_dir),
            "ASKD_WORKSPACE": f"workspace {uuid4()}",
        }
    )
