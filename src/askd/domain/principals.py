"""Who calls, and what they may do where (CONTRACT sections 6 and 9)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from askd.domain.errors import AskdError, Code, invalid
from askd.domain.text import check_identifier
from askd.domain.values import value

ALL_WORKSPACES = "*"
DEFAULT_WORKSPACE = "default"


class PrincipalKind(StrEnum):
    """What kind of caller a credential stands for."""

    USER = "user"
    API_KEY = "key"


@value
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


# Every role reads: an asker its questions, an answerer as a viewer does.
_INCLUDES = {
    Role.ASKER: frozenset({Role.ASKER}),
    Role.VIEWER: frozenset({Role.VIEWER}),
    Role.ANSWERER: frozenset({Role.ANSWERER, Role.VIEWER}),
    Role.ADMIN: frozenset(Role),
}
_NONE: frozenset[Role] = frozenset()


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Grant:
    """A role in one workspace or in all ("*"), for one session or, where that is empty, for all."""

    role: Role
    workspace_id: str
    session_id: str = ""

    def covers(self, workspace_id: str) -> bool:
        """Whether the grant holds in the workspace."""
        return self.workspace_id in (ALL_WORKSPACES, workspace_id)


@value
class Access:
    """What one caller may do in one workspace in which it holds a grant."""

    principal: Principal
    workspace_id: str
    #: By session; "" holds the roles that count in all.
    roles: Mapping[str, frozenset[Role]]
    #: When the caller's credential ends, in UTC microseconds since 1970; None: not by itself.
    expires_at: int | None = None

    def _roles_in(self, session_id: str) -> frozenset[Role]:
        return self.roles.get("", _NONE) | self.roles.get(session_id, _NONE)

    def sees(self, session_id: str) -> bool:
        """Whether the caller may know what is in a session: with any role there it may."""
        return bool(self._roles_in(session_id))

    @property
    def sessions(self) -> frozenset[str] | None:
        """The sessions that the caller sees; None where it sees all."""
        return None if "" in self.roles else frozenset(self.roles)

    def covers(self, other: "Access") -> bool:
        """Whether this access sees all that another does."""
        return self.sessions is None or (other.sessions is not None and other.sessions <= self.sessions)

    def require(self, role: Role, session_id: str) -> None:
        """Refuse a caller that lacks the role in a session as permission_denied."""
        if role not in self._roles_in(session_id):
            raise denied(f"needs the role {role}")


@value
class Caller:
    """A verified principal and its grants."""

    principal: Principal
    grants: frozenset[Grant]
    #: When the credential ends, in UTC microseconds since 1970; None: not by itself.
    expires_at: int | None = None

    def enter(self, workspace_id: str) -> Access:
        """The caller's access to a named workspace, or to its own where none is named (CONTRACT section 6)."""
        return _enter(self, workspace_id)

    def _enter(self, workspace_id: str) -> Access:
        workspace_id = workspace_id or self._own_workspace()
        roles: dict[str, frozenset[Role]] = {}
        for grant in self.grants:
            if grant.covers(workspace_id):
                roles[grant.session_id] = roles.get(grant.session_id, _NONE) | _INCLUDES[grant.role]
        if not roles:
            raise denied("no grant in this workspace")
        check_identifier(workspace_id, "workspace_id")
        return Access(principal=self.principal, workspace_id=workspace_id, roles=roles, expires_at=self.expires_at)

    def _own_workspace(self) -> str:
        named = {grant.workspace_id for grant in self.grants}
        if ALL_WORKSPACES in named:
            return DEFAULT_WORKSPACE
        if len(named) != 1:
            raise invalid("workspace_id", "the credential's grants do not name exactly one workspace; name it")
        return named.pop()

    @property
    def administered(self) -> frozenset[str]:
        """The workspaces that the caller is admin of, "*" where of all; an admin of one session manages no keys."""
        return frozenset(
            grant.workspace_id for grant in self.grants if grant.role is Role.ADMIN and not grant.session_id
        )

    def administers(self, grants: frozenset[Grant]) -> bool:
        """Whether all of the grants, and at least one, lie inside what the caller is admin of. An admin of all
        workspaces administers everything."""
        own = self.administered
        return ALL_WORKSPACES in own or (bool(grants) and all(grant.workspace_id in own for grant in grants))

    def require_admin(self) -> None:
        """Refuse a caller that is admin of nothing."""
        if not self.administered:
            raise denied("needs the role admin")


@lru_cache(1024)
def _enter(caller: Caller, workspace_id: str) -> Access:
    # Every call does this, and few callers do it in few workspaces.
    return caller._enter(workspace_id)


def unauthenticated() -> AskdError:
    """The one refusal of any credential, which does not say what is wrong with it."""
    return AskdError(Code.UNAUTHENTICATED, "no credential, or one that is not valid")


def denied(reason: str) -> AskdError:
    """A caller without the grant it needs."""
    return AskdError(Code.PERMISSION_DENIED, f"permission denied: {reason}")
