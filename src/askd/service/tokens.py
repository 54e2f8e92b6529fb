"""User tokens: JWTs of one configured issuer (CONTRACT section 9)."""

import asyncio
import json
import logging
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jwt

from askd.domain import limits
from askd.domain.errors import unavailable
from askd.domain.principals import unauthenticated
from askd.domain.text import has_control, size

log = logging.getLogger(__name__)

#: Seconds after which the issuer's keys are fetched anew, and the least between two attempts.
LIFETIME = 300.0
PAUSE = 10.0
#: Seconds and bytes that a fetch may take.
TIMEOUT = 5.0
LARGEST = 1024 * 1024


class IssuerKeys:
    """The public keys of an issuer, from a URL or a file: cached, fetched anew when old or when a token names one that
    is not known, and kept while the issuer is away."""

    def __init__(self, source: str, monotonic: Callable[[], float]) -> None:
        self._source = source
        self._monotonic = monotonic
        self._keys: dict[str | None, jwt.PyJWK] = {}
        self._fetched = float("-inf")
        self._tried = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self, key_id: str | None) -> jwt.PyJWK:
        """The key that a token names; the only one where it names none. Raises AskdError."""
        # Who comes while the keys are being fetched waits for them, too.
        if self._is_wanting(key_id) or (self._lock.locked() and key_id not in self._keys):
            async with self._lock:
                if self._is_wanting(key_id):
                    await self._refresh()
        if not self._keys:
            raise unavailable("the issuer's keys are not known yet", PAUSE)
        if key_id is None and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        if key_id not in self._keys:
            raise unauthenticated()
        return self._keys[key_id]

    def _is_wanting(self, key_id: str | None) -> bool:
        now = self._monotonic()
        old = now - self._fetched > LIFETIME
        unknown = key_id is not None and key_id not in self._keys
        return (old or unknown) and now - self._tried > PAUSE

    async def _refresh(self) -> None:
        self._tried = self._monotonic()
        try:
            document = await asyncio.to_thread(_fetch, self._source)
            self._keys = {key.key_id: key for key in jwt.PyJWKSet.from_dict(document).keys}
            self._fetched = self._tried
        except (OSError, ValueError, jwt.PyJWTError) as error:
            log.warning("the issuer's keys could not be had: %s", type(error).__name__)


def _fetch(source: str) -> dict[str, Any]:
    if "://" not in source:
        raw = Path(source).read_bytes()
    else:
        with urllib.request.urlopen(source, timeout=TIMEOUT) as response:  # noqa: S310  # the scheme was checked with the settings
            raw = response.read(LARGEST)
    document = json.loads(raw)
    if not isinstance(document, dict):
        raise ValueError("no key set")
    return document


class UserTokens:
    """Verifies tokens: signature, issuer, audience, `exp` (required), `nbf`, `iat` and a `sub` that can be a user's id:
    not empty, at most 251 bytes, no control characters."""

    def __init__(self, issuer: str, audience: str, algorithms: Sequence[str], keys: IssuerKeys) -> None:
        self._issuer = issuer
        self._audience = audience
        self._algorithms = list(algorithms)
        self._keys = keys

    async def verify(self, token: str) -> tuple[str, int]:
        """The user id of a token and when it expires, in UTC microseconds. Raises AskdError."""
        try:
            header = jwt.get_unverified_header(token)
            if header.get("alg") not in self._algorithms:
                raise unauthenticated()
            key = await self._keys.get(header.get("kid"))
            claims = jwt.decode(
                token,
                key,
                algorithms=self._algorithms,
                audience=self._audience,
                issuer=self._issuer,
                options={"require": ["exp", "sub", "iss", "aud"]},
            )
            return _user(claims["sub"]), int(float(claims["exp"]) * 1_000_000)
        except (jwt.PyJWTError, ValueError, TypeError):
            raise unauthenticated() from None


def _user(subject: object) -> str:
    if not isinstance(subject, str) or not subject or has_control(subject):
        raise unauthenticated()
    if size(f"user:{subject}") > limits.NAME:
        raise unauthenticated()
    return subject
