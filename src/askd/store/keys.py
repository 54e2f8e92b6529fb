"""Rows of keys and grants."""

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Connection, Row, select, update

from askd.domain.principals import Grant, Principal, PrincipalKind, Role
from askd.store.tables import grants, keys


@dataclass(frozen=True, kw_only=True, slots=True)
class ApiKey:
    """An API key as stored. Times are UTC microseconds since 1970."""

    id: str
    name: str
    grants: frozenset[Grant]
    secret_hash: bytes
    created_at: int
    revoked_at: int | None = None


def _principal(key_id: str) -> str:
    return str(Principal(kind=PrincipalKind.API_KEY, id=key_id))


def insert(connection: Connection, key: ApiKey) -> None:
    """Add a key and its grants."""
    connection.execute(
        sa.insert(keys),
        {
            "id": key.id,
            "name": key.name.encode(),
            "secret_hash": key.secret_hash,
            "created_at": key.created_at,
        },
    )
    principal = _principal(key.id)
    rows = [
        {"principal": principal, "role": grant.role.value, "workspace_id": grant.workspace_id}
        for grant in sorted(key.grants)
    ]
    if rows:
        connection.execute(sa.insert(grants), rows)


def load(connection: Connection, key_id: str) -> ApiKey | None:
    """One key, or None."""
    row = connection.execute(select(keys).where(keys.c.id == key_id)).one_or_none()
    if row is None:
        return None
    found = connection.execute(select(grants).where(grants.c.principal == _principal(key_id)))
    return _key(row, frozenset(map(_grant, found)))


def load_all(connection: Connection) -> list[ApiKey]:
    """Every key, oldest first."""
    by_principal: dict[str, set[Grant]] = {}
    for row in connection.execute(select(grants)):
        by_principal.setdefault(row.principal, set()).add(_grant(row))
    rows = connection.execute(select(keys).order_by(keys.c.created_at, keys.c.id))
    return [_key(row, frozenset(by_principal.get(_principal(row.id), ()))) for row in rows]


def any_keys(connection: Connection) -> bool:
    """Whether there is a key at all."""
    return connection.execute(select(keys.c.id).limit(1)).first() is not None


def revoke(connection: Connection, key_id: str, now: int) -> ApiKey:
    """End a key that exists, unless it ended before."""
    connection.execute(update(keys).where(keys.c.id == key_id, keys.c.revoked_at.is_(None)).values(revoked_at=now))
    key = load(connection, key_id)
    assert key is not None, "keys are never removed"  # noqa: S101
    return key


def _key(row: Row[Any], granted: frozenset[Grant]) -> ApiKey:
    return ApiKey(
        id=row.id,
        name=row.name.decode(),
        grants=granted,
        secret_hash=row.secret_hash,
        created_at=row.created_at,
        revoked_at=row.revoked_at,
    )


def _grant(row: Row[Any]) -> Grant:
    return Grant(role=Role(row.role), workspace_id=row.workspace_id)
