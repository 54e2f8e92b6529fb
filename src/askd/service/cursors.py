"""Cursors of lists: opaque, bound to their query, and good after a restart (CONTRACT section 5)."""

import base64
import binascii
import json
from hashlib import sha256

from askd.domain.asks import AskFilter
from askd.domain.errors import AskdError, invalid

_REVISION = 8
_SEAL = 12
_NEWEST = 2**63 - 1


def make_cursor(query: AskFilter, revision: int) -> str:
    """The cursor that continues after a created_revision."""
    position = revision.to_bytes(_REVISION, "big")
    return base64.urlsafe_b64encode(position + _seal(query, position)).decode().rstrip("=")


def read_cursor(query: AskFilter, cursor: str) -> int:
    """The created_revision that a cursor continues after; another query's or a damaged one is invalid_arguments."""
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise _refused() from None
    position = raw[:_REVISION]
    if len(raw) != _REVISION + _SEAL or raw[_REVISION:] != _seal(query, position):
        raise _refused()
    revision = int.from_bytes(position, "big")
    # Beyond the newest it is forged: no database counts so far. Base64 spells some bytes in several ways, of which one
    # is ours.
    if revision > _NEWEST or make_cursor(query, revision) != cursor:
        raise _refused()
    return revision


def _refused() -> AskdError:
    return invalid("cursor", "is damaged or belongs to another query")


def _seal(query: AskFilter, position: bytes) -> bytes:
    # A checksum and no secret: a forged cursor shows its maker nothing that the query would not.
    named = [query.workspace_id, query.session_id, query.turn_id, *sorted(query.statuses)]
    return sha256(json.dumps(named).encode() + position).digest()[:_SEAL]
