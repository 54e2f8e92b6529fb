"""The program `askd` as a user runs it whose environment names the server."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

from tests.processes import PROGRAM, environment

from askd.cli.main import main


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What the program wrote, and its exit code."""

    code: int
    output: str
    errors: str


def plain_environment(**settings: str) -> dict[str, str]:
    """An environment with no settings of askd or of terminals but these."""
    own = environment()
    return {name: own[name] for name in own.keys() - {"COLUMNS", "FORCE_COLOR", "NO_COLOR"}} | settings


class _Stream(io.TextIOWrapper):
    def __init__(self, data: bytes = b"", *, terminal: bool) -> None:
        super().__init__(io.BytesIO(data), encoding="utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        """Whether the program takes it for a terminal."""
        return self._terminal

    @property
    def written(self) -> str:
        """Everything that was written to it."""
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


@dataclass(frozen=True)
class Program:
    """Runs `askd`, in this process where nothing speaks against it, with settings in its environment."""

    settings: dict[str, str]

    def run(self, *arguments: str, stdin: str = "", terminal: bool = False, **settings: str) -> Finished:
        """Run the program to its end, on a terminal where it should take its streams for one."""
        output, errors = _Stream(terminal=terminal), _Stream(terminal=terminal)
        with (
            mock.patch.object(sys, "argv", ["askd", *arguments]),
            mock.patch.object(sys, "stdin", _Stream(stdin.encode(), terminal=terminal)),
            mock.patch.object(sys, "excepthook", sys.excepthook),
            mock.patch.dict(os.environ, plain_environment(**self.settings | settings), clear=True),
            redirect_stdout(output),
            redirect_stderr(errors),
        ):
            mask = os.umask(0)
            os.umask(mask)
            try:
                return Finished(code=_exit_code(), output=output.written, errors=errors.written)
            finally:
                os.umask(mask)

    def text(self, *arguments: str, stdin: str = "") -> str:
        """The output of a command that does what it should."""
        done = self.run(*arguments, stdin=stdin)
        assert done.code == 0, done.errors
        return done.output

    def json(self, *arguments: str, stdin: str = "") -> Any:
        """The JSON document of a command that does what it should."""
        return json.loads(self.text(*arguments, "--json", stdin=stdin))

    @contextmanager
    def started(self, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
        """The program in a process of its own, its output and errors as pipes; killed where it does not end."""
        with subprocess.Popen(
            [str(PROGRAM), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=plain_environment(**self.settings),
        ) as process:
            try:
                yield process
            finally:
                process.kill()


def _exit_code() -> int:
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
