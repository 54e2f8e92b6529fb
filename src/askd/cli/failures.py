"""How a command ends that was refused: one line on standard error and exit code 1."""

import sys

import typer

from askd.cli.terminal import line

REFUSED = 1


def report(code: str, message: str, hint: str = "") -> None:
    """Write `error: CODE: MESSAGE`, and a hint where there is one."""
    print(f"error: {line(code)}: {line(message)}", file=sys.stderr)
    if hint:
        print(f"hint: {line(hint)}", file=sys.stderr)


def refused(code: str, message: str, hint: str = "") -> typer.Exit:
    """Report a refusal; the caller raises what is returned."""
    report(code, message, hint)
    return typer.Exit(REFUSED)
