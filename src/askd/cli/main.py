"""The program `askd`."""

import inspect
import io
import sys
from collections.abc import Callable
from typing import Annotated

import typer

from askd.cli import failures, grants, keys
from askd.cli.answering import answer
from askd.cli.asking import ask
from askd.cli.benching import bench
from askd.cli.consulting import consult
from askd.cli.later import register_later
from askd.cli.reading import get, list_asks, wait
from askd.cli.resolving import cancel, reject
from askd.cli.sessions import sessions, turns
from askd.cli.validation import validate
from askd.cli.watching import watch
from askd.domain.errors import AskdError

INTERRUPTED = 130

app = typer.Typer(
    name="askd",
    help="Ask people things; people answer, once; everyone interested watches.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"askd {version('askd')}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def _reflowed(function: Callable[..., None]) -> str:
    # Typer keeps the line breaks of a docstring.
    paragraphs = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


for _function, _name in (
    (ask, "ask"),
    (wait, "wait"),
    (list_asks, "list"),
    (get, "get"),
    (answer, "answer"),
    (reject, "reject"),
    (cancel, "cancel"),
    (consult, "consult"),
    (watch, "watch"),
    (validate, "validate"),
    (keys.whoami, "whoami"),
    (bench, "bench"),
):
    app.command(_name, help=_reflowed(_function))(_function)
app.add_typer(sessions, name="session")
app.add_typer(turns, name="turn")
app.add_typer(keys.app, name="keys")
app.add_typer(grants.app, name="grants")
register_later(app, "serve", "askd.cli.serve:serve", "Run the server.")
register_later(app, "gateway", "askd.cli.gateway:gateway", "Serve the REST gateway alone, in front of any server.")
register_later(app, "db", "askd.cli.database:app", "Upgrade a database, or copy it to another.")


def main() -> None:
    """Run the program. It ends with exit code 0, 1 (refused), 2 (wrong usage) or 130 (interrupted), and never with a
    stack trace (CONTRACT section 10)."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app(prog_name="askd")
    except AskdError as error:
        failures.report(error.code, error.message)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except Exception as error:
        failures.report("internal", f"{type(error).__name__}: {error}")
    sys.exit(failures.REFUSED)
