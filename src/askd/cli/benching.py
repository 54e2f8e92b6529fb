"""`askd bench`: how fast a running server is."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents, failures
from askd.cli.options import AsJson
from askd.cli.target import Target, takes_target
from askd.cli.terminal import console, line

if TYPE_CHECKING:
    from askd.cli.measures import Measured, Place
    from askd.client import AsyncClient

_LIMIT = 4000  # calls of one measurement: the cycles share a turn, whose questions may have 8 MiB together
_COLUMNS = ("call", "at once", "calls", "calls/s", "median", "p99", "ratio")


@takes_target
def bench(
    target: Target,
    seconds: Annotated[
        float, typer.Option(min=0.1, max=60, metavar="N", help="Seconds of one measurement at most.")
    ] = 2.0,
    calls: Annotated[int, typer.Option(min=3, max=_LIMIT, metavar="N", help="Its calls at most.")] = 1000,
    concurrent: Annotated[int, typer.Option(min=1, max=256, metavar="N", help="Calls at once.")] = 16,
    as_json: AsJson = False,
) -> None:
    """Measure a running server: asks, gets, pages and whole cycles, one at a time and several at once.

    A cycle is an ask, its watcher told of it, the answer, and the watcher told of that; it needs a credential that may
    answer. Every other call needs one that may ask. `whoami` touches no ask: what it costs is the network's, gRPC's
    and this client's, and the ratio compares each call's rate with it. The calls take turns.

    It works in a session of its own, whose name it tells, and ends that at the end: nothing stays pending. What was
    answered stays as any other ask does.

    With --json an object: {"address", "workspace", "session", "left_pending", "refused"?, "measurements": [{"call",
    "concurrent", "calls", "per_second", "median_ms", "p99_ms", "ratio"}]}.
    """
    from askd.client.content import new_id

    session = f"bench-{new_id()}"

    async def measure(client: "AsyncClient") -> "Measured":
        from askd.cli import measures

        return await measures.measure(
            client, session, seconds=seconds, limit=calls, concurrent=concurrent, begun=_announce
        )

    measured = target.run(measure)
    if as_json:
        documents.write(_document(target, measured))
    else:
        _show(measured)
    if measured.left_pending:
        raise failures.refused("internal", f"the end of session {session} left asks pending")


def _announce(place: "Place") -> None:
    print(line(f"measuring in session {place.session} of workspace {place.workspace} …"), file=sys.stderr)


def _document(target: Target, measured: "Measured") -> dict[str, object]:
    place = measured.place
    refused = {"refused": measured.refused} if measured.refused else {}
    return {
        "address": target.address,
        "workspace": place.workspace,
        "session": place.session,
        "left_pending": measured.left_pending,
        **refused,
        "measurements": measured.rows(),
    }


def _show(measured: "Measured") -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(_COLUMNS):
        table.add_column(column, justify="right" if number else "left")
    for row in measured.rows():
        table.add_row(
            row["call"], str(row["concurrent"]), f"{row['calls']:,}", f"{row['per_second']:,.0f}",
            f"{row['median_ms']:.2f} ms", f"{row['p99_ms']:.2f} ms", f"{row['ratio']:.2f}",
        )  # fmt: skip
    console().print(table)
    if measured.refused:
        print(line(f"no cycle: {measured.refused}"))
