"""Who a credential stands for, and what that caller may do now (CONTRACT sections 6 and 9)."""

import asyncio
import hmac
import logging
import random
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Protocol

from sqlalchemy import Connection

from askd.domain.errors import AskdError
from askd.domain.principals import Caller, Grant, Principal, PrincipalKind, unauthenticated
from askd.domain.values import value
from askd.service.streams import Streams
from askd.store import keys as table
from askd.store.keys import ApiKey
from askd.store.reader import Reader

log = logging.getLogger(__name__)

#: Seconds that a principal is trusted without a look at the database: how late another server's change counts.
TRUST = 2.0
#: Seconds between looks at who may keep a stream open.
REVIEW = 2.0

#: Credentials remembered.
RECENT = 10_000
_NOBODY: tuple[Caller | None, float] = (None, 0.0)

KEY_PREFIX = "askd_"
ULID_LENGTH = 26


class Tokens(Protocol):
    """Verifies user tokens."""

    async def verify(self, token: str) -> tuple[str, int]:
        """The user id of a token and when it expires, in UTC microseconds. Raises AskdError (unauthenticated)."""
        ...


@value
class _Known:
    """What the database said of a principal, and until when that is trusted."""

    grants: frozenset[Grant]
    key: ApiKey | None
    until: float


class Authority:
    """Authenticates callers. A principal seen lately costs no look at the database."""

    def __init__(
        self,
        reader: Reader,
        streams: Streams,
        clock: Callable[[], int],
        monotonic: Callable[[], float],
        tokens: Tokens | None = None,
    ) -> None:
        self._reader = reader
        self._streams = streams
        self._clock = clock
        self._monotonic = monotonic
        self._tokens = tokens
        self._known: dict[Principal, _Known] = {}
        #: The callers of credentials that were good, by a hash, as long as what is known of them is trusted.
        self._recent: dict[bytes, tuple[Caller, float]] = {}
        self._changes = 0

    def recall(self, credential: str) -> Caller | None:
        """The caller that a key stood for a moment ago, if that still counts."""
        caller, until = self._recent.get(_digest(credential), _NOBODY)
        return None if caller is None or self._monotonic() > until or self._is_over(caller.expires_at) else caller

    async def authenticate(self, credential: str) -> Caller:
        """The caller that a credential stands for. Raises AskdError (unauthenticated)."""
        if credential.startswith(KEY_PREFIX):
            caller, until = await self._key_caller(credential.removeprefix(KEY_PREFIX))
            self._remember(_digest(credential), caller, until)
            return caller
        if self._tokens is None:
            raise unauthenticated()
        user, expires_at = await self._tokens.verify(credential)
        principal = Principal(kind=PrincipalKind.USER, id=user)
        known = await self._look_up(principal)
        return Caller(principal=principal, grants=known.grants, expires_at=expires_at)

    def _remember(self, digest: bytes, caller: Caller, until: float) -> None:
        if len(self._recent) >= RECENT:
            self._recent.clear()
        self._recent[digest] = caller, until

    def _is_over(self, expires_at: int | None) -> bool:
        return expires_at is not None and expires_at <= self._clock()

    async def _key_caller(self, body: str) -> tuple[Caller, float]:
        principal = Principal(kind=PrincipalKind.API_KEY, id=f"key_{body[:ULID_LENGTH]}")
        known = await self._look_up(principal)
        digest = _digest(body[ULID_LENGTH:])
        if known.key is None or not hmac.compare_digest(digest, known.key.secret_hash):
            raise unauthenticated()
        caller = self._judge(known, principal)
        if isinstance(caller, AskdError):
            raise caller
        return caller, known.until

    def _judge(self, known: _Known, principal: Principal) -> Caller | AskdError:
        key = known.key
        if principal.kind is PrincipalKind.USER:
            return Caller(principal=principal, grants=known.grants)
        if key is None or key.revoked_at is not None:
            return unauthenticated()
        if self._is_over(key.expires_at):
            return unauthenticated()
        return Caller(principal=principal, grants=known.grants, expires_at=key.expires_at)

    async def _look_up(self, principal: Principal) -> _Known:
        known = self._known.get(principal)
        if known is not None and self._monotonic() <= known.until:
            return known
        return (await self._load([principal]))[principal]

    async def _load(self, principals: Iterable[Principal]) -> dict[Principal, _Known]:
        wanted = set(principals)
        until, changes = self._monotonic() + TRUST, self._changes
        found = await self._reader.read(lambda connection: _load(connection, wanted, until))
        if changes != self._changes:
            return await self._load(wanted)  # what was read may be from before a change
        for principal, known in found.items():
            if known.key is None and not known.grants:
                self._known.pop(principal, None)  # not kept: anybody can make up principals
            else:
                self._known[principal] = known
        return found

    def changed(self, principal: Principal) -> None:
        """Say that a principal's key or grants were changed: it counts from the next call on."""
        self._changes += 1
        self._recent.clear()
        self._known.pop(principal, None)

    async def run(self) -> None:
        """Review open streams again and again, until cancelled."""
        while True:
            try:
                await self.review()
            except AskdError as error:
                log.warning("open streams could not be reviewed: %s", error.message)
            await asyncio.sleep(REVIEW * random.uniform(0.7, 1.0))  # noqa: S311  # many servers share a database

    async def review(self) -> None:
        """End the streams of callers that may no longer look, by what the database says now."""
        principals = self._streams.principals()
        if principals:
            known = await self._load(principals)
            callers = {principal: self._judge(found, principal) for principal, found in known.items()}
            self._streams.review(callers, self._clock())


def _digest(secret: str) -> bytes:
    return sha256(secret.encode(errors="replace")).digest()


def _load(connection: Connection, principals: set[Principal], until: float) -> dict[Principal, _Known]:
    granted = table.load_grants(connection, principals)
    ids = [principal.id for principal in principals if principal.kind is PrincipalKind.API_KEY]
    keys = table.load_many(connection, ids) if ids else {}
    return {
        principal: _Known(grants=granted[principal], key=keys.get(principal.id), until=until)
        for principal in principals
    }
