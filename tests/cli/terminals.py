"""The program `askd` at a pseudo-terminal.

pexpect's own spawn forks this process, which gRPC's threads in it do not survive, so the program is started by
subprocess and pexpect is given the terminal's other side.
"""

import os
import pty
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager

from pexpect import EOF, fdpexpect
from tests.cli.program import Program, plain_environment
from tests.processes import PROGRAM

LIMIT = 20  # seconds until what is expected
SIZE = (24, 80)  # rows and columns
INTERRUPT, END_OF_INPUT = "\x03", "\x04"  # what Ctrl-C and Ctrl-D send

# Whoever leads a session and opens a terminal is controlled by it: Ctrl-C reaches the program.
_AT_TERMINAL = 'exec "$0" "$@" <"$TERMINAL" >"$TERMINAL" 2>"$TERMINAL"'


class Terminal:
    """A terminal, and the program that runs at it."""

    def __init__(self, process: "subprocess.Popen[bytes]", own: int, programs: int) -> None:
        self._process = process
        self._programs = programs
        self._screen = fdpexpect.fdspawn(own, encoding="utf-8", timeout=LIMIT)

    def expect(self, pattern: str) -> str:
        """Wait until a regular expression is shown; returns what matched."""
        self._screen.expect(pattern)
        return str(self._screen.after)

    def type(self, text: str) -> None:
        """Type a text and Enter."""
        self._screen.send(f"{text}\n")

    def press(self, key: str) -> None:
        """Press a key."""
        self._screen.send(key)

    def end(self) -> tuple[int, str]:
        """The exit code when the program has ended, and what it showed since."""
        code = self._process.wait(LIMIT)
        os.close(self._programs)
        self._screen.expect(EOF)
        return code, str(self._screen.before)


@contextmanager
def terminal(askd: Program, *arguments: str, **settings: str) -> Iterator[Terminal]:
    """Start the program at a new terminal; `end` must be called."""
    own, programs = pty.openpty()
    termios.tcsetwinsize(own, SIZE)
    settings = {"TERM": "dumb", "TERMINAL": os.ttyname(programs)} | askd.settings | settings
    with subprocess.Popen(
        ["/bin/sh", "-c", _AT_TERMINAL, str(PROGRAM), *arguments],
        stdin=subprocess.DEVNULL,
        env=plain_environment(**settings),
        start_new_session=True,
    ) as process:
        try:
            yield Terminal(process, own, programs)
        finally:
            process.kill()
            os.close(own)
