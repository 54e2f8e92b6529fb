"""Servers inside the test's own event loop, for looking behind the wire."""

import atexit
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients import Client, connected

from askd.config import Settings, load
from askd.server import app
from askd.server.app import Server, open_store, utc_microseconds
from askd.store.database import Database
from askd.store.writer import Clock

# Clients of these servers are done when they drain; tests of draining use processes.
app.TURN_AWAY = 0.0


@dataclass(kw_only=True)
class Served:
    """A server that listens, and its admin."""

    server: Server
    database: Database
    address: str
    credential: str
    admin: Client
    _drained: bool = False

    async def drain(self) -> None:
        """Drain the server, unless a test did so before."""
        if not self._drained:
            self._drained = True
            await self.server.drain()


@asynccontextmanager
async def served(
    data_dir: Path,
    clock: Clock = utc_microseconds,
    environment: Mapping[str, str] | None = None,
    **options: Mapping[str, Any],
) -> AsyncIterator[Served]:
    """A server on a free port, drained afterwards. `options` are as in askd.toml. A folder that does not exist becomes
    that of a server that has been started once, since setting up a database takes longer than most tests; unless the
    database lies elsewhere, where the first key is to be made."""
    if not (data_dir.exists() or "database" in options or "ASKD_DATABASE_URL" in (environment or {})):
        shutil.copytree(await _started_once(), data_dir)
    settings = _settings(data_dir, options, environment or {})
    database = await open_store(settings, clock)
    server = Server(settings, database, clock)
    try:
        await server.start()
    except BaseException:
        await server.drain()
        raise
    address, credential = str(server.address), settings.admin_key.read_text().strip()
    async with connected(address, credential) as admin:
        running = Served(server=server, database=database, address=address, credential=credential, admin=admin)
        try:
            yield running
        finally:
            await running.drain()


def _settings(data_dir: Path, options: Mapping[str, Any], environment: Mapping[str, str]) -> Settings:
    defaults: dict[str, Any] = {"data_dir": data_dir, "grpc": {"listen": "127.0.0.1:0"}, "http": {"listen": "off"}}
    if url := environment.get("ASKD_DATABASE_URL"):  # of the environment, load() reads this process's own alone
        defaults["database"] = {"url": url}
    return load({**defaults, **options}, environment)


_once: list[Path] = []


async def _started_once() -> Path:
    if not _once:
        folder = Path(tempfile.mkdtemp(prefix="askd-tests-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        await (await open_store(_settings(folder / "data", {}, {}))).close()
        _once.append(folder / "data")
    return _once[0]
