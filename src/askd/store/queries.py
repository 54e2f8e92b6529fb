"""Reads: points, pages, snapshots and events. Every one is a bounded number of index ranges."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, select, union_all

from askd.domain import asks as rules
from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus, CancelReason
from askd.domain.limits import PAGE
from askd.domain.sessions import Turn
from askd.store.rows import STATUS_CODES, fitting, to_ask
from askd.store.tables import asks, payloads, workspaces

#: What a row without its payload takes in a response at most: ids, principals and times.
_ROW_BYTES = 4096
#: How many revisions one read of events looks at.
EVENT_SPAN = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """Asks in order of created_revision, and whether there are more after the last."""

    asks: list[Ask]
    more: bool


@dataclass(frozen=True, kw_only=True, slots=True)
class Events:
    """The events of a filter up to `revision`, which is past all of them."""

    events: list[AskEvent]
    revision: int


def load_asks(connection: Connection, ids: Iterable[str]) -> dict[str, Ask]:
    """The asks with these ids, whole; unknown ids are left out."""
    wanted = list(ids)
    if not wanted:
        return {}
    found = connection.execute(select(asks).where(asks.c.id.in_(wanted))).all()
    return {ask.id: ask for ask in _whole(connection, found)}


def _whole(connection: Connection, found: Sequence[Row[Any]]) -> list[Ask]:
    parts = _load_payloads(connection, [row.id for row in found])
    return [to_ask(row, parts.get(row.id, {})) for row in found]


def _load_payloads(connection: Connection, ids: Sequence[str]) -> Mapping[str, dict[int, str]]:
    parts: dict[str, dict[int, str]] = {}
    if ids:
        for row in connection.execute(select(payloads).where(payloads.c.ask_id.in_(ids))):
            parts.setdefault(row.ask_id, {})[row.part] = row.body
    return parts


def load_revision(connection: Connection, workspace_id: str) -> int:
    """The revision of a workspace; 0 where nothing happened yet."""
    return connection.scalar(select(workspaces.c.revision).where(workspaces.c.id == workspace_id)) or 0


def load_unjoined(connection: Connection, turn: Turn, limit: int) -> list[str]:
    """The first ids of the asks that a turn's end as completed cancelled, or has yet to."""
    statement = select(asks.c.id).where(
        asks.c.workspace_id == turn.workspace_id,
        asks.c.session_id == turn.session_id,
        asks.c.turn_id == turn.turn_id,
        asks.c.status.in_([STATUS_CODES[AskStatus.PENDING], STATUS_CODES[AskStatus.CANCELLED]]),
        (asks.c.cancel_reason == CancelReason.TURN_ENDED.value) | asks.c.cancel_reason.is_(None),
    )
    return list(connection.scalars(statement.order_by(asks.c.created_revision).limit(limit)))


def load_page(connection: Connection, query: AskFilter, after: int, limit: int) -> Page:
    """The asks of a filter created after a revision: at most `limit`, and few enough to encode to a page."""
    newer = asks.c.created_revision > after
    ranges = [
        _range(part, [newer, *states], limit + 1)
        for part in _sessions(query)
        # A list in some states, or of one session, merges a range for each state; else the creation index serves alone.
        for states in (_states(query.statuses or AskStatus) if query.statuses or part.session_id else [[]])
    ]
    return _cut(connection, ranges, limit)


def _states(statuses: Iterable[AskStatus]) -> list[list[ColumnElement[bool]]]:
    return [[asks.c.status == code] for code in sorted(STATUS_CODES[status] for status in statuses)]


def _sessions(query: AskFilter) -> list[AskFilter]:
    """The filter, or one for each session where the caller sees only some."""
    if query.scope is None:
        return [query]
    names = query.scope & {query.session_id} if query.session_id else query.scope
    return [replace(query, session_id=name, scope=None) for name in sorted(names)]


def load_snapshot(connection: Connection, query: AskFilter, revision: int, after: int, limit: int) -> Page:
    """The asks of a filter that were pending at a revision, created after another: those that still are, merged with
    those that were resolved since."""
    if query.statuses and AskStatus.PENDING not in query.statuses:
        return Page(asks=[], more=False)
    pending = asks.c.status == STATUS_CODES[AskStatus.PENDING]
    span = [asks.c.created_revision > after, asks.c.created_revision <= revision]
    ranges = [
        part_range
        for part in _sessions(query)
        for part_range in (
            _range(part, [*span, pending], limit + 1),
            _resolved_since(part, revision, after, limit + 1),
        )
    ]
    return _cut(connection, ranges, limit)


def _resolved_since(query: AskFilter, revision: int, after: int, limit: int) -> Select[Any]:
    created = asks.c.created_revision + 0  # an expression, so that the planner takes the range of asks_resolved
    statement = select(asks).where(
        asks.c.workspace_id == query.workspace_id, asks.c.resolved_revision > revision, created > after,
        created <= revision,
    )  # fmt: skip
    return _of(query, statement).order_by(created).limit(limit)


def load_events(connection: Connection, query: AskFilter, after: int) -> Events:
    """The events of a filter among the next EVENT_SPAN revisions, or the first of them that fit a page together;
    `revision` says how far this read came."""
    last = min(load_revision(connection, query.workspace_id), after + EVENT_SPAN)
    found: list[tuple[int, Row[Any]]] = []
    for column in (asks.c.created_revision, asks.c.resolved_revision):
        statement = select(asks).where(asks.c.workspace_id == query.workspace_id, column > after, column <= last)
        found += [(row._mapping[column], row) for row in connection.execute(_of(query, statement))]
    found.sort(key=lambda pair: pair[0])
    chosen = fitting([row for _, row in found], PAGE, _ROW_BYTES)
    if len(chosen) < len(found):
        last = found[len(chosen) - 1][0]
    whole = {ask.id: ask for ask in _whole(connection, list({row.id: row for row in chosen}.values()))}
    events = [_event(whole[row.id], revision) for revision, row in found[: len(chosen)]]
    return Events(events=[event for event in events if query.matches(event.ask)], revision=last)


def _event(ask: Ask, revision: int) -> AskEvent:
    return rules.created(ask) if ask.created_revision == revision else rules.resolved(ask)


def _of(query: AskFilter, statement: Select[Any]) -> Select[Any]:
    if query.scope is not None:
        statement = statement.where(asks.c.session_id.in_(query.scope))
    if query.session_id:
        statement = statement.where(asks.c.session_id == query.session_id)
    if query.turn_id:
        statement = statement.where(asks.c.turn_id == query.turn_id)
    return statement


def _range(query: AskFilter, conditions: list[ColumnElement[bool]], limit: int) -> Select[Any]:
    statement = select(asks).where(asks.c.workspace_id == query.workspace_id, *conditions)
    return _of(query, statement).order_by(asks.c.created_revision).limit(limit)


def _merge(ranges: Sequence[Select[Any]], limit: int) -> Select[Any]:
    if len(ranges) == 1:
        return ranges[0]
    merged = union_all(*(select(part.subquery()) for part in ranges)).subquery()
    return select(merged).order_by(merged.c.created_revision).limit(limit)


def _cut(connection: Connection, ranges: Sequence[Select[Any]], limit: int) -> Page:
    found = connection.execute(_merge(ranges, limit + 1)).all() if ranges else []
    chosen = fitting(found[:limit], PAGE, _ROW_BYTES)
    return Page(asks=_whole(connection, chosen), more=len(chosen) < len(found))
