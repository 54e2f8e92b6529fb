"""`askd keys` and `askd whoami`."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents, failures
from askd.cli.grants import grant_data, grant_text, parse_grant
from askd.cli.options import AsJson, ExpiresIn
from askd.cli.target import Server, takes_target
from askd.cli.terminal import console, line

if TYPE_CHECKING:
    from askd.v1 import key_service_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Make, list and revoke API keys.")


@app.command()
@takes_target
def create(
    target: Server,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What people call the key.")],
    grant: Annotated[
        list[str],
        typer.Option(metavar="ROLE@WORKSPACE", help="asker, viewer, answerer or admin; @* for all. Repeatable."),
    ],
    session: Annotated[str, typer.Option(metavar="ID", help="Bind every grant to one session.")] = "",
    expires_in: ExpiresIn = None,
    as_json: AsJson = False,
) -> None:
    """Make a key and print its secret, which is never shown again."""
    grants = [parse_grant(text, session, "--grant") for text in grant]
    made = target.run(lambda client: client.create_key(name, grants, expires_in=expires_in))
    if as_json:
        documents.write({"key": key_data(made.key), "secret": made.secret})
    else:
        print(f"made {made.key.id}; its secret is not shown again:", file=sys.stderr)
        print(line(made.secret))


@app.command("list")
@takes_target
def list_keys(target: Server, as_json: AsJson = False) -> None:
    """List keys, revoked ones included."""
    keys = target.run(lambda client: client.list_keys())
    if as_json:
        documents.write([key_data(key) for key in keys])
    else:
        console().print(_table(keys))


@app.command()
@takes_target
def revoke(
    target: Server,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="The key: key_…")],
    as_json: AsJson = False,
) -> None:
    """End a key for good."""
    key = target.run(lambda client: client.revoke_key(key_id))
    if as_json:
        documents.write(key_data(key))
    else:
        print(f"revoked  {line(key.id)}")


@app.command("bootstrap")
def make_admin_key(
    data_dir: Annotated[Path | None, typer.Option(help="The server's folder: admin.key is written there.")] = None,
    database: Annotated[str | None, typer.Option(help="The database's URL, where it is not in the folder.")] = None,
    config: Annotated[Path | None, typer.Option(help="The server's file of settings.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make another admin key where the first is lost: on the server's machine, with its settings."""
    # It loads the store, which no other command here needs.
    from askd.cli.bootstrap import BootstrapError, bootstrap

    try:
        file = bootstrap(data_dir, database, config)
    except BootstrapError as error:
        print(f"askd: {line(str(error))}", file=sys.stderr)
        raise typer.Exit(failures.REFUSED) from error
    if as_json:
        documents.write({"file": str(file)})
    else:
        print(line(str(file)))


@takes_target
def whoami(target: Server, as_json: AsJson = False) -> None:
    """Show whose credential this is, and what it may do."""
    caller = target.run(lambda client: client.who_am_i())
    if as_json:
        documents.write({"principal": caller.principal, "grants": [grant_data(grant) for grant in caller.grants]})
        return
    print(line(caller.principal))
    for grant in caller.grants:
        print(f"  {grant_text(grant)}")


def key_data(key: "pb.ApiKey") -> dict[str, object]:
    """The JSON form of a key: ApiKey's fields in lower camel case, absent ones left out."""
    from askd.wire.json import camel, time

    fields: dict[str, object] = {"id": key.id, "name": key.name, "grants": [grant_data(grant) for grant in key.grants]}
    present = {field.name: value for field, value in key.ListFields()}
    return fields | {camel(name): time(present[name]) for name in _TIMES if name in present}


_TIMES = ("created_at", "expires_at", "revoked_at")


def _table(keys: Iterable["pb.ApiKey"]) -> object:
    from rich.table import Table
    from rich.text import Text

    from askd.cli.views import local_time

    table = Table("key", "name", "grants", "created", "state", box=None, header_style="bold", pad_edge=False)
    for key in keys:
        grants = ", ".join(map(grant_text, key.grants))
        table.add_row(*map(Text, (key.id, line(key.name), grants, local_time(key.created_at), _state(key))))
    return table


def _state(key: "pb.ApiKey") -> str:
    from askd.cli.views import local_time

    if key.HasField("revoked_at"):
        return f"revoked {local_time(key.revoked_at)}"
    return f"expires {local_time(key.expires_at)}" if key.HasField("expires_at") else ""
