"""What commands print about an ask."""

import sys
from typing import TYPE_CHECKING

from askd.cli import documents
from askd.cli.terminal import block, console, line

if TYPE_CHECKING:
    from askd.v1 import ask_pb2 as pb


def write(ask: "pb.AskState") -> None:
    """The ask as a JSON document."""
    from askd.wire import json

    documents.write(json.ask(ask))


def show_id(ask: "pb.AskState") -> None:
    """The id alone, so that a shell can keep it; on a terminal with what to do next."""
    print(ask.id)
    if sys.stdout.isatty() and sys.stderr.isatty():
        print(f"answer it with: askd answer {ask.id}", file=sys.stderr)


def announce(ask: "pb.AskState") -> None:
    """Tell beside the output which ask is waited for."""
    print(f"asked {ask.id}", file=sys.stderr)


def show_outcome(ask: "pb.AskState") -> None:
    """The answers on standard output; where there are none, why on standard error."""
    from askd.cli import views

    given = views.answers(ask)
    for index, text in enumerate(given):
        print(block(f"{index + 1}. {text}" if len(given) > 1 else text))
    if not given:
        reason = "payload expired" if ask.payload_expired else views.reason_of(ask)
        print(line(": ".join(filter(None, (views.status_of(ask), reason)))), file=sys.stderr)


def show_resolution(ask: "pb.AskState", *, as_json: bool) -> None:
    """The ask as the one who resolved it sees it."""
    if as_json:
        write(ask)
    else:
        from askd.cli import views

        console().print(views.resolution(ask), soft_wrap=True)


def show_ask(ask: "pb.AskState") -> None:
    """Everything about an ask: its details, questions and answers."""
    from askd.cli import views

    output = console()
    output.print(views.details(ask))
    given = views.answers(ask)
    for index, question in enumerate(ask.questions):
        output.print()
        views.show_question(output, question, index, len(ask.questions))
        if given:
            output.print(views.given(given[index]), soft_wrap=True)
