"""`askd answer`: from options, a file or the person at the terminal."""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from askd.cli import documents, failures, results
from askd.cli.options import AsJson, AskId
from askd.cli.target import Target, takes_target
from askd.cli.terminal import console
from askd.domain.errors import Code

if TYPE_CHECKING:
    from askd.v1 import ask_pb2 as pb


@takes_target
def answer(
    target: Target,
    ask_id: AskId,
    text: Annotated[str | None, typer.Option(metavar="TEXT", help="The answer to a text question.")] = None,
    select: Annotated[
        list[str] | None, typer.Option(metavar="OPTION_ID", help="Select an option of a choice. Repeatable.")
    ] = None,
    custom: Annotated[str | None, typer.Option(metavar="TEXT", help="Answer a choice in own words.")] = None,
    notes: Annotated[str | None, typer.Option(metavar="TEXT", help="Notes beside the answer to a choice.")] = None,
    file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="JSON: an array of submissions; - is standard input."),
    ] = None,
    answer_id: Annotated[str, typer.Option(metavar="ID", help="Makes repeating the command safe.")] = "",
    as_json: AsJson = False,
) -> None:
    """Answer an ask, for good.

    Without options it shows the questions and takes the answer at the terminal.
    """
    choice = _choice(select, custom, notes)
    if sum(source is not None for source in (text, choice, file)) > 1:
        raise typer.BadParameter("--text, --file, and --select with --custom and --notes exclude each other")
    submissions: Any
    if file is not None:
        submissions = documents.read(file, Code.ANSWER_INVALID)
    elif text is not None or choice is not None:
        submissions = [text if choice is None else choice]
    else:
        submissions = _ask_person(target, ask_id, as_json=as_json)
    receipt = target.run(lambda client: client.answer(ask_id, submissions, answer_id=answer_id))
    results.show_resolution(receipt, as_json=as_json)


def _choice(select: list[str] | None, custom: str | None, notes: str | None) -> dict[str, object] | None:
    texts = {name: text for name, text in (("custom", custom), ("notes", notes)) if text is not None}
    return {"selectedIds": select or [], **texts} if select or texts else None


def _ask_person(target: Target, ask_id: str, *, as_json: bool) -> list[object]:
    if as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise typer.BadParameter("give --text, --select, --custom or --file; only on a terminal it can be asked for")
    ask = target.run(lambda client: client.get(ask_id))
    _require_pending(ask)
    from askd.cli.interview import interview

    return interview(ask, console())


def _require_pending(ask: "pb.AskState") -> None:
    from askd.cli.views import status_of

    if (status := status_of(ask)) != "pending":
        raise failures.refused(Code.ASK_ALREADY_RESOLVED, f"the ask is already {status}")
