"""`askd get`, `askd list` and `askd wait`."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents, results
from askd.cli.options import AsJson, AskId, Session, Statuses, Turn, WaitTimeout
from askd.cli.target import Target, takes_target
from askd.cli.terminal import console

if TYPE_CHECKING:
    from askd.client import AsyncClient
    from askd.v1 import ask_pb2 as pb

_PAGE = 50  # asks of one printed table


@takes_target
def get(target: Target, ask_id: AskId, as_json: AsJson = False) -> None:
    """Show an ask, its questions and its answers."""
    ask = target.run(lambda client: client.get(ask_id))
    if as_json:
        results.write(ask)
    else:
        results.show_ask(ask)


@takes_target
def wait(
    target: Target,
    ask_id: AskId,
    timeout: WaitTimeout = None,
    as_json: AsJson = False,
) -> None:
    """Wait until an ask is resolved and print its answer.

    What became of an ask that was not answered is told on standard error; also that it is still pending when the time
    is over.
    """
    ask = target.run(lambda client: client.wait(ask_id, timeout=timeout))
    if as_json:
        results.write(ask)
    else:
        results.show_outcome(ask)


@takes_target
def list_asks(
    target: Target,
    status: Statuses = None,
    session: Session = "",
    turn: Turn = "",
    limit: Annotated[int | None, typer.Option(min=1, metavar="N", help="At most N asks; else all.")] = None,
    as_json: AsJson = False,
) -> None:
    """List asks in the order in which they were asked."""

    async def show(client: "AsyncClient") -> None:
        asks = client.list(session=session, turn=turn, statuses=status or (), limit=limit)
        if as_json:
            await documents.write_array(_data(ask) async for ask in asks)
        else:
            await _print_pages(asks)

    target.run(show)


async def _print_pages(asks: AsyncIterator["pb.AskState"]) -> None:
    from askd.cli import views

    output, now = console(), datetime.now(UTC)
    rows: list[pb.AskState] = []
    header = True
    async for ask in asks:
        rows.append(ask)
        if len(rows) == _PAGE:
            output.print(views.page(rows, header=header, width=output.width, now=now))
            header, rows = False, []
    if rows or header:
        output.print(views.page(rows, header=header, width=output.width, now=now))


def _data(ask: "pb.AskState") -> object:
    from askd.wire import json

    return json.ask(ask)
