"""`askd ask`: questions from arguments or from a file."""

from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents, results
from askd.cli.options import AsJson, ExpiresIn
from askd.cli.target import Target, takes_target

if TYPE_CHECKING:
    from askd.client import AsyncClient
    from askd.v1 import ask_pb2 as pb


@takes_target
def ask(
    target: Target,
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session that asks.")],
    prompt: Annotated[str | None, typer.Argument(metavar="PROMPT", help="The question, unless --file has it.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="[ID=]LABEL", help="An option of a choice; its id is its value too. Repeatable."),
    ] = None,
    multiple: Annotated[bool, typer.Option("--multiple", help="Several options may be selected.")] = False,
    custom: Annotated[bool, typer.Option("--custom", help="An answer in own words is allowed beside options.")] = False,
    notes: Annotated[bool, typer.Option("--notes", help="Notes beside the answer are allowed.")] = False,
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="A short heading.")] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="JSON: a question or an array of them; - is standard input.")
    ] = None,
    turn: Annotated[str, typer.Option(metavar="ID", help="The turn that asks.")] = "",
    request_id: Annotated[str, typer.Option(metavar="ID", help="Makes repeating the command safe.")] = "",
    tool: Annotated[
        tuple[str, str] | None, typer.Option(metavar="MESSAGE_ID CALL_ID", help="The tool call that asks.")
    ] = None,
    expires_in: ExpiresIn = None,
    wait: Annotated[bool, typer.Option("--wait", help="Wait for the answer and print it.")] = False,
    as_json: AsJson = False,
) -> None:
    """Ask a question and print the ask's id; with --wait the answer.

    Without options it takes free text, with --option it is a choice.
    """
    if file is not None:
        if prompt is not None or option or multiple or custom or notes or title is not None:
            raise typer.BadParameter("--file holds the whole question; give no prompt and no options with it")
        questions = list(documents.as_list(documents.read(file)))
    else:
        questions = [_question(prompt, option or [], title, multiple=multiple, custom=custom, notes=notes)]

    async def send(client: "AsyncClient") -> "pb.AskState":
        asked = await client.ask(
            questions,  # type: ignore[arg-type]  # what in a file is no question, the client refuses
            session=session,
            turn=turn,
            request_id=request_id,
            tool={"messageId": tool[0], "callId": tool[1]} if tool else None,
            expires_in=expires_in,
        )
        if not wait:
            return asked
        results.announce(asked)
        return await client.wait(asked.id)

    stored = target.run(send)
    if as_json:
        results.write(stored)
    elif wait:
        results.show_outcome(stored)
    else:
        results.show_id(stored)


def _question(
    prompt: str | None, options: list[str], title: str | None, *, multiple: bool, custom: bool, notes: bool
) -> dict[str, object]:
    if prompt is None:
        raise typer.BadParameter("a prompt or --file is needed", param_hint="PROMPT")
    fields: dict[str, object] = {"prompt": prompt} if title is None else {"prompt": prompt, "title": title}
    if options:
        flags = {"multiple": multiple, "allowCustom": custom, "allowNotes": notes}
        return fields | {"type": "choice", "options": [_option(text) for text in options]} | flags
    if multiple or custom or notes:
        raise typer.BadParameter("--multiple, --custom and --notes are for a choice; give an --option")
    return fields | {"type": "text"}


def _option(text: str) -> dict[str, object]:
    identifier, equals, label = text.partition("=")
    return {"id": identifier, "label": label if equals else text, "value": identifier}
