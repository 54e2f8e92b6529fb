"""A real server that comes back at the same address with the same data."""

from pathlib import Path

from tests import processes


class RestartableServer:
    """`askd serve` on a data folder. The first start picks a free port, which later ones keep."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.address = "127.0.0.1:0"
        self._running: processes.ServerProcess | None = None

    @property
    def key(self) -> str:
        """The admin credential."""
        return (self.data_dir / "admin.key").read_text().strip()

    def start(self) -> None:
        """Start, and return when it is ready."""
        self._running = processes.start(self.data_dir, listen=("--grpc", self.address, "--http", "off"))
        self.address = self._running.address

    def kill(self) -> None:
        """End it as a crash would."""
        if self._running is not None:
            processes.end(self._running.process)
            self._running = None

    def revive(self) -> None:
        """Start it where it does not run."""
        if self._running is None:
            self.start()

    def stop(self) -> None:
        """Drain it."""
        assert self._running is not None
        self._running.terminate()
        self.kill()
