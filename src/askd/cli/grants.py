"""`askd grants`, and grants as commands take and print them."""

from typing import TYPE_CHECKING, Annotated

import typer

from askd.cli import documents
from askd.cli.options import AsJson
from askd.cli.target import Server, takes_target
from askd.cli.terminal import line

if TYPE_CHECKING:
    from askd.v1 import key_service_pb2 as pb

app = typer.Typer(no_args_is_help=True, help="Give, take and list roles.")

Principal = Annotated[str, typer.Argument(metavar="PRINCIPAL", help="user:ID or key:ID.")]
GivenGrant = Annotated[
    str, typer.Argument(metavar="ROLE@WORKSPACE", help="asker, viewer, answerer or admin; @* for all workspaces.")
]
BoundSession = Annotated[str, typer.Option("--session", metavar="ID", help="In this session only.")]


@app.command()
@takes_target
def add(
    target: Server, principal: Principal, grant: GivenGrant, session: BoundSession = "", as_json: AsJson = False
) -> None:
    """Give a role. Giving it again changes nothing."""
    given = parse_grant(grant, session, "ROLE@WORKSPACE")
    target.run(lambda client: client.grant_role(principal, given))
    _show("added", principal, given, as_json=as_json)


@app.command()
@takes_target
def remove(
    target: Server, principal: Principal, grant: GivenGrant, session: BoundSession = "", as_json: AsJson = False
) -> None:
    """Take a role away, which ends the streams that it allowed."""
    taken = parse_grant(grant, session, "ROLE@WORKSPACE")
    target.run(lambda client: client.revoke_role(principal, taken))
    _show("removed", principal, taken, as_json=as_json)


@app.command("list")
@takes_target
def list_grants(target: Server, principal: Principal, as_json: AsJson = False) -> None:
    """List a principal's roles, as far as the caller administers them."""
    grants = target.run(lambda client: client.list_grants(principal))
    if as_json:
        documents.write({"principal": principal, "grants": [grant_data(grant) for grant in grants]})
    else:
        for grant in grants:
            print(grant_text(grant))


def _show(done: str, principal: str, grant: "pb.Grant", *, as_json: bool) -> None:
    if as_json:
        documents.write({"principal": principal, "grant": grant_data(grant)})
    else:
        print(f"{done}  {line(principal)}  {grant_text(grant)}")


def parse_grant(text: str, session: str, hint: str) -> "pb.Grant":
    """The grant of ROLE@WORKSPACE; wrong usage of what `hint` names where it is none."""
    from askd.v1 import key_service_pb2 as pb

    role, at, workspace = text.partition("@")
    try:
        value = pb.Role.Value(f"ROLE_{role.upper()}")
    except ValueError:
        value = pb.ROLE_UNSPECIFIED
    if not value or not at:
        raise typer.BadParameter(f"{text!r} is no ROLE@WORKSPACE", param_hint=hint)
    return pb.Grant(role=value, workspace_id=workspace, session_id=session)


def grant_data(grant: "pb.Grant") -> dict[str, str]:
    """The JSON form of a grant: role as a word, workspaceId, and sessionId where it is for one session."""
    fields = {"role": _role(grant), "workspaceId": grant.workspace_id}
    return fields | {"sessionId": grant.session_id} if grant.session_id else fields


def grant_text(grant: "pb.Grant") -> str:
    """A grant as commands take it, and its session."""
    session = f" (session {line(grant.session_id)})" if grant.session_id else ""
    return f"{_role(grant)}@{line(grant.workspace_id)}{session}"


def _role(grant: "pb.Grant") -> str:
    from askd.v1 import key_service_pb2 as pb
    from askd.wire.json import word

    return word(pb.Role.Name(grant.role), "ROLE_")
