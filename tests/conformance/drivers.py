"""The drivers: how each language's is started, and how one is talked to (see README.md)."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.loud import skip_loudly

ROOT = Path(__file__).parents[2]
BUILD_LIMIT = 900.0  # seconds, all that Go has to compile the first time included
EXIT_LIMIT = 10.0  # seconds from the end of a driver's input to its exit

#: One result as it came: an object with `ok` or `error`.
Result = dict[str, Any]


@dataclass(frozen=True)
class Language:
    """`tool` has to be on the path; `build` makes the driver in a new folder and returns its command."""

    tool: str
    build: Callable[[Path], list[str]]


def _python(_: Path) -> list[str]:
    return [sys.executable, "-m", "tests.conformance.driver"]


def _typescript(_: Path) -> list[str]:
    _run(ROOT, "make", "typescript")
    return ["node", str(ROOT / "clients" / "typescript" / "dist" / "conformance" / "driver.js")]


def _go(place: Path) -> list[str]:
    driver = place / "driver"
    _run(ROOT / "clients" / "go", "go", "build", "-o", str(driver), "./conformance")
    return [str(driver)]


def _run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=BUILD_LIMIT, check=False)
    assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"


LANGUAGES: Mapping[str, Language] = {
    "python": Language(sys.executable, _python),
    "typescript": Language("npm", _typescript),
    "go": Language("go", _go),
}


def chosen() -> list[str]:
    """The languages that ASKD_CLIENTS names; else Python alone, which needs nothing more."""
    return os.environ.get("ASKD_CLIENTS", "python").split(",")


def require(language: str, request: pytest.FixtureRequest) -> None:
    """Skip loudly where the language's tools are missing; in CI that is a failure."""
    tool = LANGUAGES[language].tool
    if shutil.which(tool) is None:
        said = f"{tool} is missing: the {language} client was NOT tried"
        assert not os.environ.get("CI"), said
        skip_loudly(request, said)


class Driver:
    """A running driver. Results are futures, which fail when it ends."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log
        self._waiting: dict[int, Future[Result]] = {}
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, encoding="utf-8"
            )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def send(self, client: str, do: str, args: Mapping[str, Any]) -> "Future[Result]":
        """Let it run a command."""
        assert self._process.stdin is not None
        number = len(self._waiting)
        result = self._waiting[number] = Future()
        command = {"id": number, "client": client, "do": do, "args": args}
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return result

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            result = json.loads(line)
            self._waiting[result["id"]].set_result(result)
        for awaited in self._waiting.values():
            if not awaited.done():
                awaited.set_exception(AssertionError(f"the driver ended: {self._log.read_text()}"))

    def finish(self) -> None:
        """End its input; AssertionError where it does not exit with 0."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(EXIT_LIMIT) == 0, self._log.read_text()
        finally:
            self.kill()

    def kill(self) -> None:
        """End it, whatever it is at."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def logged(self) -> str:
        """What it wrote to standard error."""
        return self._log.read_text()
