"""`askd watch`: events as they happen."""

from collections.abc import Callable
from contextlib import aclosing
from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents
from askd.cli.options import AsJson, Session, Statuses, Turn
from askd.cli.target import Target, takes_target
from askd.cli.terminal import console

if TYPE_CHECKING:
    from askd.client import AsyncClient, WatchItem


@takes_target
def watch(
    target: Target,
    after: Annotated[
        int | None, typer.Option(metavar="REVISION", help="Every event after it, instead of what is pending.")
    ] = None,
    status: Statuses = None,
    session: Session = "",
    turn: Turn = "",
    follow: Annotated[
        bool, typer.Option("--follow/--until-synced", help="Go on for ever, or end when the past has been told.")
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Print what is pending, and then each event as it happens.

    It reconnects and resumes by itself, and prints each event once.

    With --json an object on each line: {"type", "revision", "ask"}, where type is pending, asked, answered, rejected or
    cancelled; and {"type": "synced", "revision"} once, when all that was past has been told. Any revision but that of a
    pending event can be given to --after.
    """

    tell = _tell_program if as_json else _person_teller()

    async def show(client: "AsyncClient") -> None:
        items = client.watch(session=session, turn=turn, statuses=status or (), after=after)
        async with aclosing(items):
            async for item in items:
                tell(item)
                if item.synced and not follow:
                    return

    target.run(show)


def _tell_program(item: "WatchItem") -> None:
    from askd.v1 import ask_pb2 as pb
    from askd.wire import json

    if item.event is not None:
        kind = json.word(pb.AskEventType.Name(item.event.type), "ASK_EVENT_TYPE_")
        documents.write_line({"type": kind, "revision": item.event.revision, "ask": json.ask(item.event.ask)})
    elif item.synced:
        documents.write_line({"type": "synced", "revision": item.revision})


def _person_teller() -> Callable[["WatchItem"], None]:
    from askd.cli import views

    output = console()

    def tell(item: "WatchItem") -> None:
        if item.event is not None:
            output.print(views.event(item.event), soft_wrap=True)
        elif item.synced:
            output.print(views.synced(item.revision), soft_wrap=True)
        output.file.flush()

    return tell
