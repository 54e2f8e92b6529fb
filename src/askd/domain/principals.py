"""Who calls, and what they may do where (CONTRACT sections 6 and 9)."""

from dataclasses import dataclass
from enum import StrEnum

from askd.domain.errors import AskdError, Code, invalid
from askd.domain.text import check_identifier

ALL_WORKSPACES = "*"
DEFAULT_WORKSPACE = "default"


class PrincipalKind(StrEnum):
    """What kind of caller a credential stands for."""

    USER = "user"
    API_KEY = "key"


@dataclass(frozen=True, kw_only=True, slots=True)
class Principal:
    """A verified caller. Its text form is `user:ID` or `key:ID`."""

    kind: PrincipalKind
    id: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.id}"

    @classmethod
    def parse(cls, text: str) -> "Principal":
        """The principal of a text form that str() made."""
        kind, _, identifier = text.partition(":")
        return cls(kind=PrincipalKind(kind), id=identifier)


class Role(StrEnum):
    """What a principal may do; see Role in the protos."""

    ASKER = "asker"
    VIEWER = "viewer"
    ANSWERER = "answerer"
    ADMIN = "admin"


_INCLUDES = {
    Role.ASKER: frozenset({Role.ASKER}),
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.ANSWERER: frozenset({Role.ANSWERER, Role.VIEWER}),
    Role.ADMIN: frozenset(Role),
}
READERS = frozenset({Role.ASKER, Role.VIEWER})


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Grant:
    """A role in one workspace or in all ("*")."""

    role: Role
    workspace_id: str

    def covers(self, workspace_id: str) -> bool:
        """Whether the grant holds in the workspace."""
        return self.workspace_id in (ALL_WORKSPACES, workspace_id)


@dataclass(frozen=True, kw_only=True, slots=True)
class Access:
    """What one caller may do in one workspace in which it holds a grant."""

    principal: Principal
    workspace_id: str
    roles: frozenset[Role]

    def require(self, *roles: Role) -> None:
        """Refuse a caller that has none of the roles as permission_denied."""
        if self.roles.isdisjoint(roles):
            raise denied(f"needs the role {' or '.join(roles)}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Caller:
    """A verified principal and its grants."""

    principal: Principal
    grants: frozenset[Grant]

    def enter(self, workspace_id: str) -> Access:
        """The caller's access to a named workspace, or to its own where none is named (CONTRACT section 6)."""
        workspace_id = workspace_id or self._own_workspace()
        roles = [_INCLUDES[grant.role] for grant in self.grants if grant.covers(workspace_id)]
        if not roles:
            raise denied("no grant in this workspace")
        check_identifier(workspace_id, "workspace_id")
        return Access(principal=self.principal, workspace_id=workspace_id, roles=frozenset().union(*roles))

    def _own_workspace(self) -> str:
        named = {grant.workspace_id for grant in self.grants}
        if ALL_WORKSPACES in named:
            return DEFAULT_WORKSPACE
        if len(named) != 1:
            raise invalid("workspace_id", "the credential's grants do not name exactly one workspace; name it")
        return named.pop()

    def administers(self, grants: frozenset[Grant]) -> bool:
        """Whether all of the grants, and at least one, lie inside what the caller is admin of. An admin of all
        workspaces administers everything."""
        own = {grant.workspace_id for grant in self.grants if grant.role is Role.ADMIN}
        return ALL_WORKSPACES in own or (bool(grants) and all(grant.workspace_id in own for grant in grants))

    def require_admin(self) -> None:
        """Refuse a caller that is admin of nothing."""
        if all(grant.role is not Role.ADMIN for grant in self.grants):
            raise denied("needs the role admin")


def denied(reason: str) -> AskdError:
    """A caller without the grant it needs."""
    return AskdError(Code.PERMISSION_DENIED, f"permission denied: {reason}")
