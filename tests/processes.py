"""Real `askd serve` processes: started, read, and ended by their id."""

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("askd")
#: A free port, and gRPC alone.
LISTEN = ("--grpc", "127.0.0.1:0", "--http", "off")
START_LIMIT = 30.0  # seconds from the start to the ready line or to the exit
STOP_LIMIT = 15.0  # seconds from SIGTERM to the exit; the contract allows 10


@dataclass(kw_only=True)
class ServerProcess:
    """One `askd serve` that said it is ready."""

    process: subprocess.Popen[str]
    data_dir: Path
    log: Path
    ready: str

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def address(self) -> str:
        """Where it serves gRPC, as its ready line says."""
        found = re.search(r" grpc=(\S+)", self.ready)
        assert found is not None, self.ready
        return found[1]

    @property
    def credential(self) -> str:
        """The admin key's."""
        return (self.data_dir / "admin.key").read_text().strip()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = STOP_LIMIT) -> int:
        """The exit code, once it has exited."""
        return self.process.wait(seconds)

    def terminate(self) -> int:
        """Drain it. Returns its exit code."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """End it without a warning."""
        self.signal(signal.SIGKILL)
        self.wait()

    def logged(self) -> str:
        """What it wrote to standard error."""
        return self.log.read_text()

    def resident(self) -> int:
        """Bytes of its resident memory, as Linux counts them."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def limit_files_to(self, size: int) -> None:
        """Let none of its files grow beyond a size, as a full disk would not."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, hard))

    def unlimit_files(self) -> None:
        """Let its files grow again."""
        _, hard = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (hard, hard))


def environment(**settings: str) -> dict[str, str]:
    """This process's environment with no settings of askd but these."""
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKD_")} | settings


def configured(data_dir: Path, toml: str) -> Path:
    """A new folder with settings in its askd.toml."""
    data_dir.mkdir()
    (data_dir / "askd.toml").write_text(toml)
    return data_dir


@contextmanager
def serving(data_dir: Path, *options: str, listen: Sequence[str] = LISTEN, **settings: str) -> Iterator[ServerProcess]:
    """A server that is ready. Ended as it likes, and killed afterwards where it still runs."""
    server = start(data_dir, *options, listen=listen, **settings)
    try:
        yield server
    finally:
        end(server.process)


def start(data_dir: Path, *options: str, listen: Sequence[str] = LISTEN, **settings: str) -> ServerProcess:
    """Start a server and read its ready line. Whoever calls ends it."""
    log = data_dir.with_name(f"{data_dir.name}.log")
    command = [str(PROGRAM), "serve", "--data-dir", str(data_dir), *listen, *options]
    with log.open("a") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
            env=environment(**settings),
        )  # fmt: skip
    try:
        ready = _ready_line(process, log)
    except BaseException:
        end(process)
        raise
    return ServerProcess(process=process, data_dir=data_dir, log=log, ready=ready)


def _ready_line(process: subprocess.Popen[str], log: Path) -> str:
    assert process.stdout is not None
    alarm = threading.Timer(START_LIMIT, process.kill)
    alarm.start()
    try:
        line = process.stdout.readline().rstrip("\n")
    finally:
        alarm.cancel()
    assert line.startswith("askd ready "), f"{line!r}, and on standard error:\n{log.read_text()}"
    return line


def end(process: subprocess.Popen[str]) -> None:
    """Kill a process where it still runs, and let go of its pipes."""
    if process.poll() is None:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


@contextmanager
def tried(data_dir: Path, **settings: str) -> Iterator["subprocess.Popen[str]"]:
    """A server that may never become ready: killed at the end of the block."""
    command = [str(PROGRAM), "serve", "--data-dir", str(data_dir), *LISTEN]
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(
        command, stdin=nothing, stdout=nothing, stderr=nothing, text=True, env=environment(**settings)
    )  # fmt: skip
    try:
        yield process
    finally:
        end(process)


def run(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `askd` until it exits by itself."""
    return subprocess.run(
        [str(PROGRAM), *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_LIMIT,
        env=environment(**settings), check=False,
    )  # fmt: skip
