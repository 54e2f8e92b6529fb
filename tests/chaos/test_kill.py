"""SIGKILL under concurrent load: nothing acknowledged is lost and nothing happens twice (issue 2, "Must show")."""

import asyncio
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.chaos.history import History
from tests.chaos.load import Endpoint, Load, credentials, resolutions, survey, views, working
from tests.clients import connected
from tests.conditions import eventually
from tests.processes import ServerProcess, configured, end, serving, start, tried

WORKSPACES = ("v", "w")
HEARTBEAT = '[watch]\nheartbeat = "0.5s"\n'


class Victim:
    """A server that is killed and started again on the same database."""

    def __init__(self, data_dir: Path, settings: dict[str, str], endpoint: Endpoint) -> None:
        self._data_dir = configured(data_dir, HEARTBEAT)
        self._settings = settings
        self._endpoint = endpoint
        self.server: ServerProcess | None = None

    async def start(self) -> ServerProcess:
        self.server = await asyncio.to_thread(start, self._data_dir, **self._settings)
        self._endpoint.rise(self.server.address)
        return self.server

    async def stop(self, number: signal.Signals) -> None:
        assert self.server is not None
        self._endpoint.fall()
        self.server.signal(number)
        code = await asyncio.to_thread(self.server.wait)
        assert code == (0 if number is signal.SIGTERM else -signal.SIGKILL)
        end(self.server.process)

    def end(self) -> None:
        if self.server is not None:
            end(self.server.process)


def acknowledged(history: History, changes: int) -> Callable[[], bool]:
    """Whether so many changes are acknowledged."""
    return lambda: len(history.acknowledged) >= changes


async def kill_again_and_again(
    data_dir: Path,
    settings: dict[str, str],
    *,
    kills: int,
    changes: int,
    clients: int,
    seed: int,
    number: signal.Signals = signal.SIGKILL,
) -> History:
    """Kill the server each time after so many acknowledged changes more, and hold all that was told to the log."""
    history, endpoint = History(), Endpoint()
    victim = Victim(data_dir, settings, endpoint)
    try:
        server = await victim.start()
        async with connected(server.address, server.credential) as admin:
            keys = await credentials(admin, clients)
        load = Load(history, endpoint, WORKSPACES, seed)
        async with working(load, keys, views(WORKSPACES)):
            for _ in range(kills):
                await eventually(acknowledged(history, len(history.acknowledged) + changes), within=60)
                await victim.stop(number)
                server = await victim.start()
            await eventually(acknowledged(history, len(history.acknowledged) + changes), within=60)
        async with connected(server.address, server.credential) as admin:
            logs, asks = await survey(admin, WORKSPACES)
        history.check(logs, asks)
        assert sum(map(len, logs.values())) > changes * kills / 2
        assert all(resolutions(log) for log in logs.values())
        assert history.lost, "nobody raced"
    finally:
        victim.end()
    return history


async def test_a_server_that_is_killed_under_load_loses_nothing_it_acknowledged(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    await kill_again_and_again(tmp_path / "data", database_settings, kills=3, changes=150, clients=8, seed=1)


async def test_a_first_start_that_is_killed_with_its_database_made_is_made_good_by_the_next(tmp_path: Path) -> None:
    await killed_at_first_start(tmp_path / "data", {}, lambda: (tmp_path / "data" / "askd.db").exists())


async def test_a_first_start_that_is_killed_with_its_key_written_is_made_good_by_the_next(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    """The file comes before the row, which may not be committed."""
    await killed_at_first_start(tmp_path / "data", database_settings, (tmp_path / "data" / "admin.key").exists)


@pytest.mark.soak
async def test_a_first_start_that_is_killed_at_every_moment_is_made_good_by_the_next(
    tmp_path: Path,
) -> None:
    for number in range(60):
        await killed_at_first_start(tmp_path / str(number), {}, past(time.monotonic() + 0.02 * number))


def past(moment: float) -> Callable[[], bool]:
    """Whether a time has come, by the monotonic clock."""
    return lambda: time.monotonic() > moment


async def killed_at_first_start(data_dir: Path, settings: dict[str, str], moment: Callable[[], bool]) -> None:
    """Kill a server on an empty database once something holds of it; the next one must find its way."""
    with tried(data_dir, **settings) as process:
        await eventually(lambda: moment() or process.poll() is not None, within=60, pause=0)
    with serving(data_dir, **settings) as server:
        async with connected(server.address, server.credential) as admin:
            assert len(await admin.list_keys()) == 1
            assert (await admin.ask()).created_revision == 1


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(10))
async def test_a_server_that_is_killed_many_times_loses_nothing_it_acknowledged(
    tmp_path: Path, database_settings: dict[str, str], seed: int
) -> None:
    await kill_again_and_again(tmp_path / "data", database_settings, kills=20, changes=400, clients=24, seed=seed)


@pytest.mark.soak
async def test_a_server_that_is_drained_many_times_loses_nothing_it_acknowledged(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    await kill_again_and_again(
        tmp_path / "data", database_settings, kills=10, changes=300, clients=16, seed=99, number=signal.SIGTERM
    )
