"""Starts the servers and the client, and ends exactly what it started."""

import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from bench.plan import Endpoint

ROOT = Path(__file__).parents[1]
START_LIMIT = 120.0  # seconds from the start of a server to its ready line
STOP_LIMIT = 15.0  # seconds from SIGTERM to the exit; askd drains within 10


class BenchError(Exception):
    """A process did not do its part; the message holds what it wrote."""


@contextmanager
def folder(parent: str | None) -> Iterator[Path]:
    """A folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="askd-bench-", dir=parent) as name:
        yield Path(name)


def logs(place: Path) -> list[str]:
    """What the servers wrote that had their files there."""
    return [f"{path.name}: {text}" for path in sorted(place.rglob("*.log")) if (text := path.read_text())]


def environment() -> dict[str, str]:
    """This process's environment without settings of askd, which would change what is measured."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKD_")}


@contextmanager
def serving(command: Sequence[str], log: Path) -> Iterator[Endpoint]:
    """A server that has printed its ready line. It is ended with SIGTERM, or with SIGKILL where that is not enough."""
    log.parent.mkdir(parents=True, exist_ok=True)
    begin = time.perf_counter()
    with (
        log.open("w") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment(), cwd=ROOT
        ) as process,
    ):
        try:
            grpc, http = ready_addresses(process, log)
            yield Endpoint(address=grpc, http=http, pid=process.pid, seconds=time.perf_counter() - begin)
        finally:
            stop(process)


def ready_addresses(process: subprocess.Popen[str], log: Path) -> tuple[str, str]:
    """Where the server listens, read from its ready line; without HTTP the second is empty."""
    assert process.stdout is not None
    alarm = threading.Timer(START_LIMIT, process.kill)
    alarm.start()
    try:
        line = process.stdout.readline()
    finally:
        alarm.cancel()
    found = re.search(r"\bready grpc=(\S+)(?: http=(\S+))?", line)
    if found is None:
        raise BenchError(f"{process.args!r} did not start: {line!r}\n{log.read_text()}")
    return found[1], found[2] or ""


def stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_LIMIT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def floor(place: Path) -> Iterator[Endpoint]:
    """The bare server of `bench.floors`."""
    with serving([sys.executable, "-m", "bench.floors"], place / "floor.log") as endpoint:
        yield endpoint


@contextmanager
def hop(place: Path) -> Iterator[Endpoint]:
    """The bare server of `bench.hop`."""
    with serving([sys.executable, "-m", "bench.hop"], place / "hop.log") as endpoint:
        yield endpoint


PROGRAM = str(Path(sys.executable).with_name("askd"))


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database with the schema, on a PostgreSQL of its own that waits for the disk as it should.
    Its files are in the system's temporary folder, since it may run as another user."""
    from tests.postgres.cluster import Cluster

    cluster = Cluster({"fsync": "on", "full_page_writes": "on"})
    try:
        cluster.start()
        url = cluster.create()
        command = [PROGRAM, "db", "upgrade", "--database", url]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment(), cwd=ROOT)
        yield url
    finally:
        cluster.remove()


@contextmanager
def askd(
    place: Path, *, stored: int = 0, database: str = "", key: Path | None = None, http: str = "off"
) -> Iterator[Endpoint]:
    """`askd serve` with its data under `place`, where `stored` asks lie already, or on a database. `key` is the folder
    of the server that made the database's first key, where another did."""
    data = place / "data"
    command = [PROGRAM, "serve", "--data-dir", str(data), "--grpc", "127.0.0.1:0", "--http", http]
    command += ["--database", database] if database else []
    with serving(command, place / "askd.log") as endpoint:
        credential = ((key or place) / "data" / "admin.key").read_text().strip()
        yield replace(endpoint, credential=credential, stored=stored)


def run_client(task: str, limit: float) -> str:
    """What the client process prints for `task`. It is killed when it takes longer than `limit` seconds."""
    command = [sys.executable, "-m", "bench.load"]
    try:
        done = subprocess.run(
            command, input=task, capture_output=True, text=True, timeout=limit, cwd=ROOT, env=environment(), check=False
        )
    except subprocess.TimeoutExpired as error:
        raise BenchError(f"the client took longer than {limit:.0f} s") from error
    if done.returncode != 0:
        raise BenchError(f"the client failed with {done.returncode}\n{done.stderr}")
    return done.stdout


def resident_bytes(pid: int) -> int:
    """The resident memory of a process, as Linux counts it."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
