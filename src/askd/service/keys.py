"""API keys: making, checking and revoking them (CONTRACT section 9)."""

import hmac
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from sqlalchemy import Connection
from ulid import ULID

from askd.domain import limits
from askd.domain.errors import AskdError, Code, invalid, not_found
from askd.domain.principals import ALL_WORKSPACES, Caller, Grant, Principal, PrincipalKind, Role, denied
from askd.domain.text import check_identifier, check_size
from askd.store import keys as table
from askd.store.database import Database, refusing
from askd.store.keys import ApiKey

T = TypeVar("T")

#: Seconds that a checked key is trusted without a look at the database: how late another server's revocation counts.
TRUST = 2.0
_PREFIX = "askd_"
_ULID = 26


@dataclass(frozen=True, kw_only=True, slots=True)
class _Checked:
    key: ApiKey
    caller: Caller
    until: float


def unauthenticated() -> AskdError:
    """The one refusal of any credential, which does not say what is wrong with it."""
    return AskdError(Code.UNAUTHENTICATED, "no credential, or one that is not valid")


class Keys:
    """The use cases of KeyService, and who a credential stands for. Every method raises AskdError."""

    def __init__(self, database: Database, clock: Callable[[], int], monotonic: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock
        self._monotonic = monotonic
        self._checked: dict[str, _Checked] = {}
        self._revocations = 0

    async def authenticate(self, credential: str) -> Caller:
        """The caller that a credential stands for. A known key costs no look at the database."""
        key_id, secret = _parse(credential)
        checked = self._checked.get(key_id)
        if checked is None or self._monotonic() > checked.until:
            checked = await self._check(key_id)
        if not hmac.compare_digest(sha256(secret.encode()).digest(), checked.key.secret_hash):
            raise unauthenticated()
        if checked.key.revoked_at is not None:
            raise unauthenticated()
        return checked.caller

    async def _check(self, key_id: str) -> _Checked:
        until, revocations = self._monotonic() + TRUST, self._revocations
        key = await self._read(lambda connection: table.load(connection, key_id))
        if revocations != self._revocations:
            return await self._check(key_id)  # what was read may be from before a revocation
        if key is None:
            self._checked.pop(key_id, None)
            raise unauthenticated()
        caller = Caller(principal=Principal(kind=PrincipalKind.API_KEY, id=key_id), grants=key.grants)
        checked = self._checked[key_id] = _Checked(key=key, caller=caller, until=until)
        return checked

    async def create(self, caller: Caller, name: str, grants: frozenset[Grant]) -> tuple[ApiKey, str]:
        """Make a key inside what the caller administers. Returns it and its credential."""
        caller.require_admin()
        check_size(name, "name", limits.NAME)
        _check_grants(grants)
        if not caller.administers(grants):
            raise denied("a grant lies beyond what the caller administers")
        key, credential = new_key(name, grants, self._clock())
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
        key = await self._read(lambda connection: table.load(connection, key_id))
        if key is None or not caller.administers(key.grants):
            raise not_found("key", key_id)
        now = self._clock()
        revoked = await self._write(lambda connection: table.revoke(connection, key_id, now))
        self._revocations += 1
        self._checked.pop(key_id, None)
        return revoked

    async def _read(self, transaction: Callable[[Connection], T]) -> T:
        with refusing():
            return await self._database.read(transaction)

    async def _write(self, transaction: Callable[[Connection], T]) -> T:
        with refusing():
            return await self._database.write(transaction)


def _parse(credential: str) -> tuple[str, str]:
    body = credential.removeprefix(_PREFIX)
    if body == credential or len(body) <= _ULID:
        raise unauthenticated()
    return f"key_{body[:_ULID]}", body[_ULID:]


def _check_grants(grants: frozenset[Grant]) -> None:
    if len(grants) > limits.GRANTS:
        raise invalid("grants", f"{len(grants)} grants, the limit is {limits.GRANTS}")
    for grant in grants:
        if grant.workspace_id != ALL_WORKSPACES:
            check_identifier(grant.workspace_id, "grants.workspace_id")


def new_key(name: str, grants: frozenset[Grant], now: int) -> tuple[ApiKey, str]:
    """A new key and its credential, of which the key keeps only a hash: with 256 random bits a plain one is enough."""
    ulid = str(ULID()).lower()
    secret = secrets.token_hex(32)
    key = ApiKey(
        id=f"key_{ulid}",
        name=name,
        grants=grants,
        secret_hash=sha256(secret.encode()).digest(),
        created_at=now,
    )
    return key, f"{_PREFIX}{ulid}{secret}"


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
