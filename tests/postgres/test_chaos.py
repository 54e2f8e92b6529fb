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
from tests.postgres.proxy import proxied
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

    @asynccontextmanager
    async def _admin(self) -> AsyncIterator[Client]:
        assert self.server is not None
        # The key of the server that started first, which made it.
        credential = (self._data_dir.with_name("a") / "admin.key").read_text().strip()
        async with connected(self.server.address, credential) as admin:
            yield admin

    async def health(self) -> str:
        async with self._admin() as admin:
            return await admin.health()

    async def is_serving(self) -> bool:
        return await self.health() == "SERVING"

    async def ask(self, workspace_id: str) -> None:
        async with self._admin() as admin:
            await admin.ask(workspace_id=workspace_id)

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


@asynccontextmanager
async def under_load(
    url: str, folder: Path, *, clients: int, seed: int
) -> AsyncIterator[tuple[History, Balancer, tuple[Victim, Victim]]]:
    """Two servers that clients work on and watch. In the end all that was told is held to the log."""
    history, balancer = History(), Balancer()
    async with victims(url, folder, balancer) as pair:
        first = pair[0].server
        assert first is not None
        credential = first.credential
        async with connected(first.address, credential) as admin:
            keys = await credentials(admin, clients)
        async with working(Load(history, balancer, WORKSPACES, seed), keys, views(WORKSPACES)):
            yield history, balancer, pair
        await hold_to_the_log(history, pair, credential)


async def kill_in_turn(
    url: str, folder: Path, cluster: Cluster, *, rounds: int, changes: int, clients: int, seed: int
) -> None:
    """Kill a server, the other one, and the database, again and again."""
    async with under_load(url, folder, clients=clients, seed=seed) as (history, _, pair):
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
    assert history.lost, "nobody raced"


async def hold_to_the_log(history: History, pair: Sequence[Victim], credential: str) -> None:
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


async def test_commits_of_which_the_answer_is_lost_lose_nothing_and_do_nothing_twice(
    url: str, tmp_path: Path, cluster: Cluster
) -> None:
    async with (
        proxied(cluster.folder) as proxy,
        under_load(proxy.url(url), tmp_path, clients=6, seed=2) as (history, _, _),
    ):
        proxy.every = 4
        await eventually(lambda: len(proxy.cut) >= 30, within=50)
        proxy.every = 0
        await more(history, 20)


async def test_a_database_that_refuses_connections_for_10_s_loses_nothing(
    url: str, tmp_path: Path, running: Cluster
) -> None:
    async with under_load(url, tmp_path, clients=3, seed=3) as (history, _, pair):
        await more(history, 30)
        running.crash()
        await asyncio.sleep(10)
        assert [await victim.health() for victim in pair] == ["NOT_SERVING"] * 2
        await asyncio.to_thread(running.start)
        for victim in pair:
            await eventually(victim.is_serving)
        await more(history, 30)


async def test_a_workspace_that_is_locked_for_5_s_loses_nothing_and_stops_no_other(
    url: str, tmp_path: Path, cluster: Cluster
) -> None:
    async with under_load(url, tmp_path, clients=3, seed=4) as (history, _, pair):
        await more(history, 30)
        with cluster.holding("SELECT 1 FROM workspaces WHERE id = 'u' FOR UPDATE", url):
            locked = asyncio.create_task(asyncio.sleep(5))
            while not locked.done():
                for victim in pair:
                    await victim.ask("elsewhere")
                await asyncio.sleep(0.2)
        await more(history, 30)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
async def test_servers_and_database_that_are_killed_many_times_lose_nothing(
    url: str, tmp_path: Path, running: Cluster, seed: int
) -> None:
    await kill_in_turn(url, tmp_path, running, rounds=6, changes=300, clients=16, seed=seed)


@pytest.mark.soak
async def test_a_database_that_is_away_for_10_s_under_load_loses_nothing(
    url: str, tmp_path: Path, running: Cluster
) -> None:
    async with under_load(url, tmp_path, clients=16, seed=11) as (history, _, _):
        for stop in (running.stop, running.crash):
            await more(history, 200)
            stop()
            await asyncio.sleep(10)
            await asyncio.to_thread(running.start)
        await more(history, 200)


@pytest.mark.soak
async def test_a_workspace_that_is_locked_for_5_s_under_load_loses_nothing(
    url: str, tmp_path: Path, running: Cluster
) -> None:
    async with under_load(url, tmp_path, clients=16, seed=12) as (history, _, _):
        for _ in range(3):
            await more(history, 200)
            with running.holding("SELECT 1 FROM workspaces WHERE id = 'u' FOR UPDATE", url):
                await asyncio.sleep(5)
        await more(history, 200)


@pytest.mark.soak
async def test_a_suspended_server_gives_its_workspaces_up(url: str, tmp_path: Path, running: Cluster) -> None:
    """It may have been stopped in the middle of a transaction, whose locks the others then wait for."""
    async with under_load(url, tmp_path, clients=16, seed=13) as (history, balancer, pair):
        server = pair[0].server
        assert server is not None
        for _ in range(5):
            await more(history, 100)
            server.signal(signal.SIGSTOP)
            balancer.remove(server.address)
            await asyncio.sleep(7)
            server.signal(signal.SIGCONT)
            balancer.rise(server.address)
        await more(history, 100)
