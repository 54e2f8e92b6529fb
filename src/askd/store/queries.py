"""Reads: points, pages, snapshots and events. Every one is a bounded number of index ranges."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, CompoundSelect, Connection, Select, bindparam, select, union_all

from askd.domain import asks as rules
from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus, CancelReason
from askd.domain.limits import PAGE
from askd.domain.sessions import UNJOINED, Turn
from askd.domain.values import value
from askd.store.lists import padded, storable
from askd.store.pauses import unhurried
from askd.store.rows import STATUS_CODES, AskRow, fitting, is_row_of, to_ask
from askd.store.statements import binds, equals, fetch, numbered
from askd.store.tables import asks, payloads, workspaces

#: Asks that may be at hand, whole; what the row says of them decides.
Known = Callable[[str], Ask | None] | None

_Query = Select[Any] | CompoundSelect[Any]

#: What a row without its payload takes in a response at most: ids, principals and times.
_ROW_BYTES = 4096
#: How many revisions one read of events looks at.
EVENT_SPAN = 512


@dataclass(kw_only=True, slots=True)
class Page:
    """Asks in order of created_revision, and whether there are more after the last."""

    asks: list[Ask]
    more: bool
    #: The responses that the server made of it, which go to many callers, by what these asked for: another filter's
    #: cursor differs, even where the caller may see no more than this one's.
    encoded: dict[AskFilter, bytes] = field(default_factory=dict)


@value
class Events:
    """The events of a filter up to `revision`, which is past all of them."""

    events: list[AskEvent]
    revision: int


# Statements are built once for each shape of a query: building one costs more than running it.

_REVISION = select(workspaces.c.revision).where(workspaces.c.id == bindparam("workspace_id"))
_PENDING = equals(asks.c.status, STATUS_CODES[AskStatus.PENDING])


@lru_cache
def _by_id(count: int) -> Select[Any]:
    return select(asks).where(asks.c.id.in_(binds("id", count)))


@lru_cache
def _parts(count: int) -> Select[Any]:
    return select(payloads).where(payloads.c.ask_id.in_(binds("id", count)))


@lru_cache
def _revisions(count: int) -> Select[Any]:
    return select(workspaces).where(workspaces.c.id.in_(binds("id", count)))


@lru_cache
def _resolved(count: int) -> Select[Any]:
    return select(asks.c.id).where(asks.c.id.in_(binds("id", count)), ~_PENDING)


def _fetch_by(
    connection: Connection, statement: Callable[[int], Select[Any]], ids: Sequence[str]
) -> Sequence[tuple[Any, ...]]:
    """The rows of a query for some ids."""
    if not ids:
        return ()
    wanted = padded(ids)
    return fetch(connection, statement(len(wanted)), numbered("id", wanted))


def load_asks(connection: Connection, ids: Iterable[str]) -> dict[str, Ask]:
    """The asks with these ids, whole; unknown ids are left out."""
    found = list(map(AskRow._make, _fetch_by(connection, _by_id, storable(ids))))
    return {ask.id: ask for ask in _whole(connection, found)}


def _whole(connection: Connection, found: Sequence[AskRow], known: Known = None) -> list[Ask]:
    at_hand = {row.id: ask for row in found if known and (ask := known(row.id)) and is_row_of(row, ask)}
    parts = _load_payloads(connection, [row.id for row in found if row.id not in at_hand])
    return [at_hand.get(row.id) or to_ask(row, parts.get(row.id, {})) for row in unhurried(connection, found)]


def _load_payloads(connection: Connection, ids: Sequence[str]) -> Mapping[str, dict[int, str]]:
    parts: dict[str, dict[int, str]] = {}
    for ask_id, part, body in _fetch_by(connection, _parts, ids):
        parts.setdefault(ask_id, {})[part] = body
    return parts


def load_revision(connection: Connection, workspace_id: str) -> int:
    """The revision of a workspace; 0 where nothing happened yet."""
    return next((revision for (revision,) in fetch(connection, _REVISION, {"workspace_id": workspace_id})), 0)


def load_revisions(connection: Connection, ids: Sequence[str]) -> list[tuple[str, int]]:
    """The revisions of workspaces, of those in which anything happened yet."""
    return [(workspace_id, revision) for workspace_id, revision in _fetch_by(connection, _revisions, ids)]


def load_resolved(connection: Connection, ids: Sequence[str]) -> list[str]:
    """Those of some asks that are resolved."""
    return [ask_id for (ask_id,) in _fetch_by(connection, _resolved, storable(ids))]


def load_unjoined(connection: Connection, turn: Turn) -> list[str]:
    """The first ids of the asks that a turn's end as completed cancelled, or has yet to."""
    named = {"workspace_id": turn.workspace_id, "session_0": turn.session_id, "turn_id": turn.turn_id}
    return [row.id for row in _fetch_merged(connection, _unjoined(), named, UNJOINED)]


@lru_cache(1)
def _unjoined() -> _Query:
    (where,) = _of(sessions=1, in_turn=True)
    cancelled = equals(asks.c.status, STATUS_CODES[AskStatus.CANCELLED])
    ended = asks.c.cancel_reason == CancelReason.TURN_ENDED.value
    return _merge([_range(where, _PENDING), _range(where, cancelled, ended)])


def load_page(connection: Connection, query: AskFilter, after: int, limit: int, known: Known = None) -> Page:
    """The asks of a filter created after a revision: at most `limit`, and few enough to encode to a page."""
    sessions = _sessions(query)
    if sessions is None:
        return Page(asks=[], more=False)
    statement = _page(len(sessions), bool(query.turn_id), query.statuses)
    return _cut(connection, statement, _named(query, sessions) | {"after": after}, limit, known)


@lru_cache(256)
def _page(sessions: int, in_turn: bool, statuses: frozenset[AskStatus]) -> _Query:
    newer = asks.c.created_revision > bindparam("after")
    if not statuses and not sessions:
        return _range(_of(sessions, in_turn)[0], newer)  # the creation index serves alone
    codes = sorted(STATUS_CODES[status] for status in statuses or AskStatus)
    wanted = [equals(asks.c.status, code) for code in codes]
    return _merge([_range(part, newer, status) for part in _of(sessions, in_turn) for status in wanted])


def load_snapshot(connection: Connection, query: AskFilter, revision: int, after: int, limit: int) -> Page:
    """The asks of a filter that were pending at a revision, created after another: those that still are, merged with
    those that were resolved since."""
    sessions = _sessions(query)
    if sessions is None or (query.statuses and AskStatus.PENDING not in query.statuses):
        return Page(asks=[], more=False)
    named = _named(query, sessions) | {"after": after, "revision": revision}
    return _cut(connection, _snapshot(len(sessions), bool(query.turn_id)), named, limit)


@lru_cache(64)
def _snapshot(sessions: int, in_turn: bool) -> _Query:
    def within(created: ColumnElement[int]) -> list[ColumnElement[bool]]:
        return [created > bindparam("after"), created <= bindparam("revision")]

    # An expression, so that the planner takes the range of asks_resolved.
    created = asks.c.created_revision + 0
    since = asks.c.resolved_revision > bindparam("revision")
    parts = _of(sessions, in_turn)
    still = [_range(part, *within(asks.c.created_revision), _PENDING) for part in parts]
    return _merge(still + [_range(part, *within(created), since, order=created) for part in parts])


def load_events(connection: Connection, query: AskFilter, after: int, last: int | None = None) -> Events:
    """The events of a filter among the next EVENT_SPAN revisions up to `last`, which must be committed (None: up to
    what is), or the first of them that fit a page together; `revision` says how far this read came."""
    known = load_revision(connection, query.workspace_id) if last is None else last
    last = min(known, after + EVENT_SPAN)
    sessions = _sessions(query)
    if sessions is None:
        return Events(events=[], revision=last)
    found: list[tuple[int, AskRow]] = []
    named = _named(query, sessions) | {"after": after, "last": last}
    for revision in ("created_revision", "resolved_revision"):
        statement = _events(revision, len(sessions), bool(query.turn_id))
        rows = map(AskRow._make, fetch(connection, statement, named))
        found += [(getattr(row, revision), row) for row in rows]
    found.sort(key=lambda pair: pair[0])
    chosen = fitting([row for _, row in found], PAGE, _ROW_BYTES)
    if len(chosen) < len(found):
        last = found[len(chosen) - 1][0]
    whole = {ask.id: ask for ask in _whole(connection, list({row.id: row for row in chosen}.values()))}
    events = [_event(whole[row.id], revision) for revision, row in found[: len(chosen)]]
    return Events(events=[event for event in events if query.matches(event.ask)], revision=last)


@lru_cache(64)
def _events(revision: str, sessions: int, in_turn: bool) -> Select[Any]:
    of_turn = [asks.c.turn_id == bindparam("turn_id")] if in_turn else []
    of_sessions = [asks.c.session_id.in_([bindparam(f"session_{index}") for index in range(sessions)])]
    return select(asks).where(
        asks.c.workspace_id == bindparam("workspace_id"),
        asks.c[revision] > bindparam("after"),
        asks.c[revision] <= bindparam("last"),
        *of_turn,
        *(of_sessions if sessions else []),
    )


def _event(ask: Ask, revision: int) -> AskEvent:
    return rules.created(ask) if ask.created_revision == revision else rules.resolved(ask)


def _sessions(query: AskFilter) -> list[str] | None:
    """The sessions to look in, none where it is all of them; None where the caller sees none that the filter means."""
    if query.scope is None:
        return [query.session_id] if query.session_id else []
    names = query.scope & {query.session_id} if query.session_id else query.scope
    return sorted(names) or None


def _named(query: AskFilter, sessions: Sequence[str]) -> dict[str, Any]:
    named = {f"session_{index}": session for index, session in enumerate(sessions)}
    return {"workspace_id": query.workspace_id} | named | ({"turn_id": query.turn_id} if query.turn_id else {})


def _of(sessions: int, in_turn: bool) -> list[list[ColumnElement[bool]]]:
    """The conditions that place an ask: one list a session, or one for all of them."""
    where: list[ColumnElement[bool]] = [asks.c.workspace_id == bindparam("workspace_id")]
    if in_turn:
        where.append(asks.c.turn_id == bindparam("turn_id"))
    if not sessions:
        return [where]
    return [[*where, asks.c.session_id == bindparam(f"session_{index}")] for index in range(sessions)]


def _range(
    where: Sequence[ColumnElement[bool]],
    *more: ColumnElement[bool],
    order: ColumnElement[int] = asks.c.created_revision,
) -> Select[Any]:
    return select(asks).where(*where, *more).order_by(order).limit(bindparam("most"))


def _merge(ranges: Sequence[Select[Any]]) -> _Query:
    """All that the ranges find, each in order. SQLite would sort each anew to merge them: _fetch_merged() does it."""
    return ranges[0] if len(ranges) == 1 else union_all(*(select(part.subquery()) for part in ranges))


def _fetch_merged(connection: Connection, statement: _Query, named: Mapping[str, Any], most: int) -> list[AskRow]:
    """The first rows of ranges in order of created_revision."""
    found = map(AskRow._make, fetch(connection, statement, {**named, "most": most}))
    return sorted(found, key=lambda row: row.created_revision)[:most]


def _cut(connection: Connection, statement: _Query, named: Mapping[str, Any], limit: int, known: Known = None) -> Page:
    found = _fetch_merged(connection, statement, named, limit + 1)
    chosen = fitting(found[:limit], PAGE, _ROW_BYTES)
    return Page(asks=_whole(connection, chosen, known), more=len(chosen) < len(found))
