"""Rows of keys and grants."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, delete, select, update

from askd.domain.principals import Grant, Principal, PrincipalKind, Role
from askd.domain.values import value
from askd.store.lists import padded, storable
from askd.store.statements import insert_missing
from askd.store.tables import grants, keys


@value
class ApiKey:
    """An API key as stored. Times are UTC microseconds since 1970."""

    id: str
    name: str
    grants: frozenset[Grant]
    secret_hash: bytes
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    @property
    def principal(self) -> Principal:
        """Whom the key stands for."""
        return _principal(self.id)


def _principal(key_id: str) -> Principal:
    return Principal(kind=PrincipalKind.API_KEY, id=key_id)


def insert(connection: Connection, key: ApiKey) -> None:
    """Add a key and its grants."""
    row = {
        "id": key.id,
        "name": key.name.encode(),
        "secret_hash": key.secret_hash,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }
    connection.execute(sa.insert(keys), row)
    for grant in key.grants:
        add_grant(connection, key.principal, grant)


def load_many(connection: Connection, ids: Iterable[str]) -> dict[str, ApiKey]:
    """The keys with these ids; unknown ids are left out."""
    wanted = storable(ids)
    granted = load_grants(connection, map(_principal, wanted))
    rows = connection.execute(select(keys).where(keys.c.id.in_(padded(wanted))))
    return {row.id: _key(row, granted[_principal(row.id)]) for row in rows}


def load(connection: Connection, key_id: str) -> ApiKey | None:
    """One key, or None."""
    return load_many(connection, [key_id]).get(key_id)


def load_all(connection: Connection) -> list[ApiKey]:
    """Every key, oldest first."""
    by_principal: dict[str, set[Grant]] = {}
    for row in connection.execute(select(grants)):
        by_principal.setdefault(row.principal, set()).add(_grant(row))
    rows = connection.execute(select(keys).order_by(keys.c.created_at, keys.c.id))
    return [_key(row, frozenset(by_principal.get(str(_principal(row.id)), ()))) for row in rows]


def lock(connection: Connection) -> None:
    """Keep other servers from changing keys until the transaction ends."""
    if connection.dialect.name == "postgresql":  # SQLite's transactions keep everybody off anyway
        connection.exec_driver_sql("SET LOCAL lock_timeout = '10s'")
        connection.exec_driver_sql("LOCK TABLE keys IN SHARE ROW EXCLUSIVE MODE")


def any_keys(connection: Connection) -> bool:
    """Whether there is a key at all."""
    return connection.execute(select(keys.c.id).limit(1)).first() is not None


def revoke(connection: Connection, key_id: str, now: int) -> None:
    """End a key, unless it ended before."""
    connection.execute(update(keys).where(keys.c.id == key_id, keys.c.revoked_at.is_(None)).values(revoked_at=now))


def load_grants(connection: Connection, principals: Iterable[Principal]) -> dict[Principal, frozenset[Grant]]:
    """The grants of principals, of each that was asked for."""
    found: dict[Principal, set[Grant]] = {principal: set() for principal in principals}
    statement = select(grants).where(grants.c.principal.in_(padded(storable(map(str, found)))))
    for row in connection.execute(statement):
        found[Principal.parse(row.principal)].add(_grant(row))
    return {principal: frozenset(granted) for principal, granted in found.items()}


def add_grant(connection: Connection, principal: Principal, grant: Grant) -> None:
    """Give a grant, unless it is there."""
    insert_missing(connection, grants, [_grant_row(principal, grant)])


def remove_grant(connection: Connection, principal: Principal, grant: Grant) -> None:
    """Take a grant, if it is there."""
    row = _grant_row(principal, grant)
    connection.execute(delete(grants).where(*(grants.c[name] == value for name, value in row.items())))


def _grant_row(principal: Principal, grant: Grant) -> dict[str, str]:
    return {
        "principal": str(principal),
        "role": grant.role.value,
        "workspace_id": grant.workspace_id,
        "session_id": grant.session_id,
    }


def _key(row: Row[Any], granted: frozenset[Grant]) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name.decode(),
        grants=granted,
        secret_hash=row.secret_hash,
        created_at=row.created_at,
        expires_at=row.expires_at,
        revoked_at=row.revoked_at,
    )


def _grant(row: Row[Any]) -> Grant:
    return Grant(role=Role(row.role), workspace_id=row.workspace_id, session_id=row.session_id)
