"""`askd validate`: questions checked without asking them."""

from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents
from askd.cli.options import AsJson
from askd.cli.target import Server, takes_target

if TYPE_CHECKING:
    from askd.client import AsyncClient


@takes_target
def validate(
    target: Server,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON: a question or an array; - is standard input.")],
    as_json: AsJson = False,
) -> None:
    """Check questions as asking each alone would."""
    questions = documents.as_list(documents.read(file))

    async def check(client: "AsyncClient") -> None:
        for question in questions:
            await client.validate(question)  # type: ignore[arg-type]  # what is no question, the client refuses

    target.run(check)
    if as_json:
        documents.write({"valid": True})
    else:
        print("valid")
