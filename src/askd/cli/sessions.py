"""`askd session` and `askd turn`."""

from enum import StrEnum
from typing import Annotated

import typer

from askd.cli import documents
from askd.cli.options import AsJson
from askd.cli.target import Target, takes_target
from askd.cli.terminal import line

sessions = typer.Typer(no_args_is_help=True, help="Open and end sessions.")
turns = typer.Typer(no_args_is_help=True, help="End turns.")

SessionId = Annotated[str, typer.Argument(metavar="SESSION", help="The session.")]


class Outcome(StrEnum):
    """How a turn ends."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"
    CANCELLED = "cancelled"
    FAILED = "failed"


@sessions.command("open")
@takes_target
def open_session(
    target: Target,
    session: SessionId,
    parent: Annotated[str, typer.Option(metavar="SESSION", help="The session that it works for.")] = "",
    as_json: AsJson = False,
) -> None:
    """Declare a session. One with a parent cannot ask; without one this is not needed."""
    target.run(lambda client: client.open_session(session, parent=parent))
    if as_json:
        documents.write({"sessionId": session} | ({"parentSessionId": parent} if parent else {}))
    else:
        print(f"opened  {line(session)}")


@sessions.command("end")
@takes_target
def end_session(target: Target, session: SessionId, as_json: AsJson = False) -> None:
    """Refuse further asks in a session and cancel its pending ones."""
    target.run(lambda client: client.end_session(session))
    if as_json:
        documents.write({"sessionId": session})
    else:
        print(f"ended  {line(session)}")


# Without it typer would make the only command of the group the group itself.
@turns.callback()
def _turns() -> None:
    pass


@turns.command("end")
@takes_target
def end_turn(
    target: Target,
    session: SessionId,
    turn: Annotated[str, typer.Argument(metavar="TURN", help="The turn.")],
    outcome: Annotated[Outcome, typer.Option(help="How it ended; failed where asks are pending at its completion.")],
    as_json: AsJson = False,
) -> None:
    """Refuse further asks in a turn and cancel its pending ones.

    Prints the outcome that holds, which is the first one given; and the asks, a line each, that were left pending where
    it was to be completed.
    """
    ended = target.run(lambda client: client.end_turn(session, turn, outcome))
    from askd.client.content import outcome_word

    holds, unjoined = outcome_word(ended.outcome), list(ended.unjoined_ask_ids)
    if as_json:
        fields = {"sessionId": session, "turnId": turn, "outcome": holds}
        documents.write({**fields, "unjoinedAskIds": unjoined, "unjoinedCount": ended.unjoined_count})
        return
    print(holds)
    for ask_id in unjoined:
        print(f"unjoined  {ask_id}")
    if more := ended.unjoined_count - len(unjoined):
        print(f"unjoined  {more} more")
