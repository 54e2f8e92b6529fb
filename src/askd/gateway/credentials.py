"""The caller's credential: taken from HTTP and sent on as it is, never judged here."""

import base64
import binascii
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias

from askd.domain.errors import Code
from askd.gateway.refusals import RefusalError

#: Metadata of a gRPC call.
Metadata: TypeAlias = tuple[tuple[str, str], ...]

# What gRPC metadata can carry, within the 8 KiB that it takes without complaint.
_SENDABLE = re.compile(r"[!-~]{1,7000}")
_BEARER = (b"www-authenticate", b"Bearer")
_BASIC = (b"www-authenticate", b'Basic realm="askd", charset="UTF-8"')


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential as gRPC metadata."""

    metadata: Metadata
    ambient: bool
    """Whether a browser may have added it by itself, as it does with Basic, for a page that never knew it."""


def parse(values: list[bytes]) -> Credential:
    """The credential of a request's Authorization headers: Bearer, or Basic with the credential as the password.

    Unauthenticated where there is none, more than one, or one that cannot be a credential.
    """
    if len(values) != 1:
        raise unauthenticated("one Authorization header with a Bearer or Basic credential is required")
    scheme, _, value = values[0].decode("latin-1").strip().partition(" ")
    match scheme.lower():
        case "bearer":
            return Credential(_metadata(value.strip()), ambient=False)
        case "basic":
            return Credential(_metadata(_password(value.strip())), ambient=True)
    raise unauthenticated("the Authorization header must be Bearer or Basic")


def _metadata(credential: str) -> Metadata:
    if not _SENDABLE.fullmatch(credential):
        raise unauthenticated("the credential is not valid")
    return (("authorization", f"Bearer {credential}"),)


def _password(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, ValueError):
        raise unauthenticated("the Basic credential is not valid") from None


def check_origin(origin: str | None, host: str | None, site: str | None, trusted: Collection[str]) -> None:
    """Refuse a change with a credential that a browser may have added by itself, where the page that caused it is
    neither the gateway's own nor of a trusted origin. Programs send none of these headers."""
    if site in ("same-origin", "none") or origin in trusted:
        return
    if site is not None or (origin is not None and origin.partition("://")[2] != host):
        raise RefusalError(Code.PERMISSION_DENIED, "this origin may not use the browser's own credentials")


def unauthenticated(message: str) -> RefusalError:
    """No credential, or one that cannot be right."""
    return RefusalError(Code.UNAUTHENTICATED, message)


def challenge(values: list[bytes]) -> tuple[tuple[bytes, bytes], ...]:
    """The WWW-Authenticate headers of a 401. A program that sends Bearer is not asked for a password: its browser would
    open a dialog."""
    bearer = any(value[:7].lower() == b"bearer " for value in values)
    return (_BEARER,) if bearer else (_BEARER, _BASIC)
