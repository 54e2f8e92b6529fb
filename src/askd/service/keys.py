"""Managing API keys and grants (CONTRACT section 9)."""

import asyncio
import os
import secrets
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection

from askd.domain import limits
from askd.domain.errors import invalid, not_found
from askd.domain.principals import ALL_WORKSPACES, Caller, Grant, Principal, PrincipalKind, Role, denied
from askd.domain.text import check_identifier, check_size
from askd.service.authority import KEY_PREFIX, Authority
from askd.service.ids import new_ulid
from askd.store import keys as table
from askd.store.database import Database, refusing
from askd.store.keys import ApiKey

T = TypeVar("T")


class Keys:
    """The use cases of KeyService but WhoAmI. Every method needs the role admin and raises AskdError."""

    def __init__(self, database: Database, authority: Authority, clock: Callable[[], int]) -> None:
        self._database = database
        self._authority = authority
        self._clock = clock

    async def create(
        self, caller: Caller, name: str, grants: frozenset[Grant], expires_in: int | None
    ) -> tuple[ApiKey, str]:
        """Make a key inside what the caller administers, good for some microseconds. Returns it and its credential."""
        caller.require_admin()
        check_size(name, "name", limits.NAME)
        _check_count(len(grants))
        for grant in grants:
            _check_grant(grant, "grants")
        if not caller.administers(grants):
            raise denied("a grant lies beyond what the caller administers")
        key, credential = new_key(name, grants, self._clock(), expires_in)
        await self._write(lambda connection: table.insert(connection, key))
        return key, credential

    async def list_keys(self, caller: Caller) -> list[ApiKey]:
        """The keys inside what the caller administers, oldest first."""
        caller.require_admin()
        keys = await self._read(table.load_all)
        return [key for key in keys if caller.administers(key.grants)]

    async def revoke(self, caller: Caller, key_id: str) -> ApiKey:
        """End a key; from the next call on it is refused here."""
        caller.require_admin()
        now = self._clock()

        def transaction(connection: Connection) -> ApiKey:
            key = _managed_key(connection, caller, key_id)
            table.revoke(connection, key_id, now)
            return table.load(connection, key_id) or key

        return await self._change(Principal(kind=PrincipalKind.API_KEY, id=key_id), transaction)

    async def grant(self, caller: Caller, principal: Principal, grant: Grant) -> None:
        """Give a principal a grant inside what the caller administers."""
        self._check_change(caller, grant)

        def transaction(connection: Connection) -> None:
            if principal.kind is PrincipalKind.API_KEY and table.load(connection, principal.id) is None:
                raise not_found("key", principal.id)
            held = table.load_grants(connection, [principal])[principal]
            _check_count(len(held | {grant}))
            table.add_grant(connection, principal, grant)

        await self._change(principal, transaction)

    async def ungrant(self, caller: Caller, principal: Principal, grant: Grant) -> None:
        """Take a grant inside what the caller administers from a principal."""
        self._check_change(caller, grant)
        await self._change(principal, lambda connection: table.remove_grant(connection, principal, grant))

    async def list_grants(self, caller: Caller, principal: Principal) -> list[Grant]:
        """A principal's grants inside what the caller administers."""
        caller.require_admin()
        held = await self._read(lambda connection: table.load_grants(connection, [principal]))
        return [grant for grant in held[principal] if caller.administers(frozenset({grant}))]

    def _check_change(self, caller: Caller, grant: Grant) -> None:
        caller.require_admin()
        _check_grant(grant, "grant")
        if not caller.administers(frozenset({grant})):
            raise denied("the grant lies beyond what the caller administers")

    async def _change(self, principal: Principal, transaction: Callable[[Connection], T]) -> T:
        """Commit a change of a principal and say so: also where the caller leaves or the answer is lost in between."""

        async def commit() -> T:
            try:
                return await self._write(transaction)
            finally:
                self._authority.changed(principal)

        return await asyncio.shield(asyncio.create_task(commit(), name="change a principal"))

    async def _read(self, transaction: Callable[[Connection], T]) -> T:
        with refusing():
            return await self._database.read(transaction)

    async def _write(self, transaction: Callable[[Connection], T]) -> T:
        with refusing():
            return await self._database.write(transaction)


def _managed_key(connection: Connection, caller: Caller, key_id: str) -> ApiKey:
    key = table.load(connection, key_id)
    if key is None or not caller.administers(key.grants):
        raise not_found("key", key_id)
    return key


def _check_count(count: int) -> None:
    if count > limits.GRANTS:
        raise invalid("grants", f"{count} grants, the limit is {limits.GRANTS}")


def _check_grant(grant: Grant, field: str) -> None:
    if grant.workspace_id != ALL_WORKSPACES:
        check_identifier(grant.workspace_id, f"{field}.workspace_id")
    if grant.session_id:
        check_identifier(grant.session_id, f"{field}.session_id")


def new_key(name: str, grants: frozenset[Grant], now: int, expires_in: int | None = None) -> tuple[ApiKey, str]:
    """A new key and its credential, of which the key keeps only a hash: with 256 random bits a plain one is enough."""
    ulid = new_ulid()
    secret = secrets.token_hex(32)
    key = ApiKey(
        id=f"key_{ulid}",
        name=name,
        grants=grants,
        secret_hash=sha256(secret.encode()).digest(),
        created_at=now,
        expires_at=None if expires_in is None else now + expires_in,
    )
    return key, f"{KEY_PREFIX}{ulid}{secret}"


def insert_admin_key(connection: Connection, path: Path, name: str, now: int) -> ApiKey:
    """Insert a key that is admin everywhere, its credential first written to a file that only its owner can read."""
    grant = Grant(role=Role.ADMIN, workspace_id=ALL_WORKSPACES)
    key, credential = new_key(name, frozenset({grant}), now)
    _write_secret(path, credential)
    table.insert(connection, key)
    return key


def insert_first_key(connection: Connection, path: Path, now: int) -> bool:
    """Insert the first admin key into an empty database. Returns whether it was empty."""
    if table.any_keys(connection):
        return False
    table.lock(connection)  # where several servers start at once, one makes the key
    if table.any_keys(connection):
        return False
    insert_admin_key(connection, path, "first key", now)
    return True


def _write_secret(path: Path, credential: str) -> None:
    # Beside and then renamed, so that no moment has half a credential or one that others can read.
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)
    file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w") as stream:
        stream.write(f"{credential}\n")
        stream.flush()
        os.fsync(stream.fileno())
    new.replace(path)
