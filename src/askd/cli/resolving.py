"""`askd reject` and `askd cancel`."""

from typing import Annotated

import typer

from askd.cli import results
from askd.cli.options import AsJson, AskId
from askd.cli.target import Target, takes_target


@takes_target
def reject(
    target: Target,
    ask_id: AskId,
    reason: Annotated[str, typer.Option(metavar="TEXT", help="Why, for the asker to read.")] = "",
    as_json: AsJson = False,
) -> None:
    """Refuse to answer an ask, for good."""
    ask = target.run(lambda client: client.reject(ask_id, reason))
    results.show_resolution(ask, as_json=as_json)


@takes_target
def cancel(target: Target, ask_id: AskId, as_json: AsJson = False) -> None:
    """Take an ask back."""
    ask = target.run(lambda client: client.cancel(ask_id))
    results.show_resolution(ask, as_json=as_json)
