"""Two servers and their database are killed in turn under load: nothing acknowledged is lost, nothing happens twice,
and every watcher sees it all in order (issue 7, "Must show")."""

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.chaos.history import History
from tests.chaos.load import Endpoint, Load, credentials, resolutions, survey, views, working
from tests.clients import Client, connected
from tests.conditions import eventually
from tests.postgres.cluster import Cluster
from tests.processes import ServerProcess, configured, end, start

WORKSPACES = ("u", "v", "w")
HEARTBEAT = '[watch]\nheartbeat = "0.5s"\n'
#: Calls after which clients come to another server, as a load balancer would have them.
STINT = 40


class Balancer(Endpoint):
    """Sends clients to one of the servers that are there, now to this one and now to that."""

    def __init__(self) -> None:
        super().__init__()
        self._addresses: list[str] = []
        self._calls = 0

    def rise(self, address: str) -> None:
        """See Endpoint."""
        self._addresses.append(address)
        super().rise(address)

    def remove(self, address: str) -> None:
        """Send nobody to a server any more."""
        self._addresses.remove(address)
        if not self._addresses:
            self.fall()

    async def reach(self) -> str:
        """See Endpoint."""
        await super().reach()
        self._calls += 1
        return self._addresses[self._calls // STINT % len(self._addresses)]


class Victim:
    """A server that is killed and started again."""

    def __init__(self, data_dir: Path, url: str, balancer: Balancer) -> None:
        self._data_dir = configured(data_dir, HEARTBEAT)
        self._url = url
        self._balancer = balancer
        self.server: ServerProcess | None = None

    async def start(self) -> ServerProcess:
        self.server = await asyncio.to_thread(start, self._data_dir, ASKD_DATABASE_URL=self._url)
        self._balancer.rise(self.server.address)
        return self.server

    async def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """End the server. Its clients find out by themselves."""
        assert self.server is not None
        self.server.signal(number)
        await asyncio.to_thread(self.server.wait)
        self._balancer.remove(self.server.address)
        end(self.server.process)

    def end(self) -> None:
        if self.server is not None:
            end(self.server.process)


@asynccontextmanager
async def victims(url: str, folder: Path, balancer: Balancer) -> AsyncIterator[tuple[Victim, Victim]]:
    """Two servers that are started, the first of which made the first key."""
    pair = Victim(folder / "a", url, balancer), Victim(folder / "b", url, balancer)
    try:
        for victim in pair:
            await victim.start()
        yield pair
    finally:
        for victim in pair:
            victim.end()


async def more(history: History, changes: int) -> None:
    """Wait until so many changes more are acknowledged."""
    enough = len(history.acknowledged) + changes
    await eventually(lambda: len(history.acknowledged) >= enough, within=60)


async def kill_in_turn(
    url: str, folder: Path, cluster: Cluster, *, rounds: int, changes: int, clients: int, seed: int
) -> None:
    """Kill a server, the other one, and the database, again and again, and hold all that was told to the log."""
    history, balancer = History(), Balancer()
    async with victims(url, folder, balancer) as pair:
        first = pair[0].server
        assert first is not None
        credential = first.credential
        async with connected(first.address, credential) as admin:
            keys = await credentials(admin, clients)
        async with working(Load(history, balancer, WORKSPACES, seed), keys, views(WORKSPACES)):
            for _ in range(rounds):
                for victim in pair:
                    await more(history, changes)
                    await victim.kill()
                    await more(history, changes)  # on the other server
                    await victim.start()
                await more(history, changes)
                cluster.crash()
                await asyncio.to_thread(cluster.start)
            await more(history, changes)
        await hold_to_the_log(history, pair, credential, seed)


async def hold_to_the_log(history: History, pair: Sequence[Victim], credential: str, seed: int) -> None:
    """Both servers tell the same, and it goes with all that clients were told."""
    surveys = []
    for victim in pair:
        assert victim.server is not None
        async with connected(victim.server.address, credential) as admin:
            surveys.append(await survey(admin, WORKSPACES))
    assert surveys[0] == surveys[1]
    logs, asks = surveys[0]
    history.check(logs, asks)
    assert all(resolutions(log) for log in logs.values())
    assert history.lost, "nobody raced"


@pytest.fixture
def running(cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, which runs again after the test."""
    yield cluster
    if not cluster.accepts():
        cluster.start()


async def test_servers_and_database_that_are_killed_in_turn_lose_nothing(
    url: str, tmp_path: Path, running: Cluster
) -> None:
    await kill_in_turn(url, tmp_path, running, rounds=1, changes=60, clients=6, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
async def test_servers_and_database_that_are_killed_many_times_lose_nothing(
    url: str, tmp_path: Path, running: Cluster, seed: int
) -> None:
    await kill_in_turn(url, tmp_path, running, rounds=6, changes=300, clients=16, seed=seed)


async def call_within(client: Client, seconds: float) -> None:
    async def succeeds() -> bool:
        try:
            await client.ask()
        except Exception:
            return False
        return True

    await eventually(succeeds, within=seconds)


@pytest.mark.soak
async def test_a_suspended_server_gives_its_workspaces_up(url: str, tmp_path: Path, running: Cluster) -> None:
    """It may have been stopped in the middle of a transaction, whose locks the others then wait for."""
    history, balancer = History(), Balancer()
    async with victims(url, tmp_path, balancer) as pair:
        assert pair[0].server is not None
        assert pair[1].server is not None
        credential = pair[0].server.credential
        async with connected(pair[1].server.address, credential) as other:
            keys = await credentials(other, 8)
            load = Load(history, balancer, ("w",), 1)
            async with working(load, keys, views(("w",))):
                for _ in range(5):
                    await more(history, 100)
                    pair[0].server.signal(signal.SIGSTOP)
                    balancer.remove(pair[0].server.address)
                    await call_within(other, 15)
                    pair[0].server.signal(signal.SIGCONT)
                    balancer.rise(pair[0].server.address)
            logs, asks = await survey(other, ("w",))
        history.check(logs, asks)
