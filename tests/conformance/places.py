"""Where scenarios run: a real server that can be killed and started again, keys for it, and addresses of no server."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.provider import MODELS, providing
from tests.processes import ServerProcess, configured, end, start

from askd import Client
from askd.v1 import key_service_pb2 as keys

#: Providers that answer and that cannot be reached. The rate holds for each workspace.
SETTINGS = """
[consult]
rate = "2/hour"
[consult.providers.there]
kind = "openai"
base_url = "http://{provider}"
api_key_env = "PROVIDER_KEY"
models = {models}
[consult.providers.away]
kind = "openai"
base_url = "http://{dead}"
api_key_env = "PROVIDER_KEY"
models = ["m"]
timeout = 5
"""


@dataclass
class Place:
    """One server at one address, whatever happens to its process. `dead` refuses connections, `silent` says nothing."""

    server: ServerProcess
    dead: str
    silent: str

    def __post_init__(self) -> None:
        self.address = self.server.address
        self.credential = self.server.credential

    def kill(self) -> None:
        """SIGKILL to the server."""
        self.server.kill()
        end(self.server.process)

    def start(self) -> None:
        """A server on the same folder and port."""
        self.server = start(self.server.data_dir, listen=("--grpc", self.address, "--http", "off"), PROVIDER_KEY="none")

    def ensure_running(self) -> None:
        """Start it where a scenario left it killed."""
        if self.server.process.poll() is not None:
            self.start()

    def create_key(self, workspace: str, grants: list[str]) -> keys.CreateKeyResponse:
        """A key with grants, ROLE or ROLE@SESSION, in a workspace."""
        with Client(self.address, self.credential) as admin:
            return admin.create_key("conformance", [_grant(workspace, grant) for grant in grants])


def _grant(workspace: str, grant: str) -> keys.Grant:
    role, _, session = grant.partition("@")
    return keys.Grant(role=keys.Role.Value(f"ROLE_{role.upper()}"), workspace_id=workspace, session_id=session)


@contextmanager
def places(folder: Path) -> Iterator[Place]:
    """A server on a new folder, and the two addresses that none listens at."""
    with ExitStack() as held:
        silent = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        dead = held.enter_context(socket.socket())
        dead.bind(("127.0.0.1", 0))  # bound, so that nobody else takes it, but not listening
        settings = SETTINGS.format(provider=held.enter_context(providing()), dead=_address(dead), models=list(MODELS))
        place = Place(
            start(configured(folder / "data", settings), PROVIDER_KEY="none"), _address(dead), _address(silent)
        )
        held.callback(lambda: end(place.server.process))
        yield place


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()
    return f"{host}:{port}"
