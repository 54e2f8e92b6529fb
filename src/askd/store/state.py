"""What a batch of commands touches: loaded once, changed in memory by each command in turn, written once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, select, text
from sqlalchemy.sql.elements import TextClause

from askd.domain.asks import Ask, AskDraft, AskEvent, AskStatus, CancelAsks, CreateAsk, ResolveAsk, created, resolved
from askd.domain.sessions import (
    UNJOINED,
    Command,
    EndSession,
    EndTurn,
    OpenSession,
    Session,
    Turn,
    workspace_of,
)
from askd.store import rows
from askd.store.lists import padded
from askd.store.memory import Memory, SessionKey, TurnKey
from askd.store.queries import load_asks
from askd.store.statements import binds, equals, fetch, insert_all, insert_missing, numbered, update_all, upsert
from askd.store.tables import asks, payloads, sessions, turns, workspaces


@dataclass(kw_only=True, slots=True)
class State:
    """The rows of a batch, as of the command decided last."""

    now: int
    revisions: dict[str, int]
    asks: dict[str, Ask] = field(default_factory=dict)
    requests: dict[tuple[str, str], str] = field(default_factory=dict)
    sessions: dict[SessionKey, Session] = field(default_factory=dict)
    turns: dict[TurnKey, Turn] = field(default_factory=dict)
    #: The pending asks in the database of sessions and turns that are to be ended: the first ids, and how many.
    pending: dict[tuple[str, ...], tuple[list[str], int]] = field(default_factory=dict)
    created: list[Ask] = field(default_factory=list)
    resolved: list[Ask] = field(default_factory=list)
    changed_sessions: set[SessionKey] = field(default_factory=set)
    changed_turns: set[TurnKey] = field(default_factory=set)
    events: list[AskEvent] = field(default_factory=list)

    def next_revision(self, workspace_id: str) -> int:
        """The revision that the next change of an ask takes."""
        return self.revisions[workspace_id] + 1

    def add(self, ask: Ask) -> None:
        """Take a new ask."""
        self.asks[ask.id] = ask
        self.created.append(ask)
        self.revisions[ask.workspace_id] = ask.created_revision
        self.events.append(created(ask))

    def put(self, ask: Ask) -> None:
        """Take an ask that was resolved."""
        self.asks[ask.id] = ask
        self.resolved.append(ask)
        self.revisions[ask.workspace_id] = ask.resolved_revision or 0
        self.events.append(resolved(ask))

    def pending_in(self, key: tuple[str, ...]) -> tuple[list[str], int]:
        """The pending asks of a session or a turn as of now: the first ids, and how many."""
        ids, count = self.pending[key]
        new = {ask.id for ask in self.created}
        changed = [
            ask
            for ask in {ask.id: self.asks[ask.id] for ask in (*self.created, *self.resolved)}.values()
            if (ask.workspace_id, ask.session_id, ask.turn_id)[: len(key)] == key
        ]
        gone = {ask.id for ask in changed if ask.status is not AskStatus.PENDING}
        added = [ask.id for ask in changed if ask.id in new - gone]
        return [*(ask_id for ask_id in ids if ask_id not in gone), *added], count - len(gone - new) + len(added)

    def put_session(self, session: Session) -> None:
        """Take a session, new or changed."""
        key = session.workspace_id, session.session_id
        self.sessions[key] = session
        self.changed_sessions.add(key)

    def put_turn(self, turn: Turn) -> None:
        """Take a turn, new or changed."""
        key = turn.workspace_id, turn.session_id, turn.turn_id
        self.turns[key] = turn
        self.changed_turns.add(key)


def session_of(command: Command) -> SessionKey | None:
    """The session whose state a command depends on."""
    match command:
        case CreateAsk(draft=AskDraft(session_id=session_id)):
            return command.access.workspace_id, session_id
        case OpenSession() | EndSession() | EndTurn():
            return command.access.workspace_id, command.session_id
    return None


def turn_of(command: Command) -> TurnKey | None:
    """The turn whose state a command depends on."""
    match command:
        case CreateAsk(draft=AskDraft(session_id=session_id, turn_id=str() as turn_id)):
            return command.access.workspace_id, session_id, turn_id
        case EndTurn():
            return command.access.workspace_id, command.session_id, command.turn_id
    return None


@dataclass(kw_only=True, slots=True)
class _Wanted:
    """What the commands of a batch depend on."""

    workspaces: set[str] = field(default_factory=set)
    #: By workspace.
    requests: dict[str, set[bytes]] = field(default_factory=dict)
    asks: set[str] = field(default_factory=set)
    sessions: set[SessionKey | None] = field(default_factory=set)
    turns: set[TurnKey | None] = field(default_factory=set)
    #: Sessions and turns that are to be ended.
    ended: set[SessionKey | TurnKey] = field(default_factory=set)


def _wanted_by(commands: Sequence[Command], *, uncertain: bool) -> _Wanted:
    wanted = _Wanted()
    for command in commands:
        wanted.workspaces.add(workspace_of(command))
        match command:
            case CreateAsk():
                if command.request_id is not None:
                    requests = wanted.requests.setdefault(command.access.workspace_id, set())
                    requests.add(command.request_id.encode())
                if uncertain:
                    wanted.asks.add(command.ask_id)
            case ResolveAsk():
                wanted.asks.add(command.ask_id)
                continue
            case CancelAsks():
                wanted.asks.update(command.ask_ids)
                continue
            case EndSession():
                wanted.ended.add((command.access.workspace_id, command.session_id))
            case EndTurn():
                wanted.ended.add((command.access.workspace_id, command.session_id, command.turn_id))
        wanted.sessions.add(session_of(command))
        wanted.turns.add(turn_of(command))
    return wanted


# --- loading ---


def load(
    connection: Connection,
    commands: Sequence[Command],
    now: int,
    *,
    uncertain: bool,
    memory: Memory,
    pending: Mapping[str, Ask],
) -> State:
    """Lock the workspaces' rows, sorted, then load what the commands touch and is not at hand, one query a table."""
    wanted = _wanted_by(commands, uncertain=uncertain)
    state = State(now=now, revisions=_revisions(connection, wanted.workspaces, memory))
    _load_requests(connection, wanted.requests, state)
    wanted.asks.update(state.requests.values())
    state.asks = {ask_id: pending[ask_id] for ask_id in wanted.asks & pending.keys()}
    state.asks |= load_asks(connection, wanted.asks - pending.keys())
    _load_sessions(connection, wanted.sessions, memory, state)
    _load_turns(connection, wanted.turns, memory, state)
    for ended in wanted.ended:
        state.pending[ended] = _load_pending(connection, ended)
    return state


# Statements are built once for each number of values: building one costs more than running it.


@lru_cache
def _workspaces(count: int) -> Select[Any]:
    ids = binds("id", count)
    return select(workspaces.c.id, workspaces.c.revision).where(workspaces.c.id.in_(ids)).order_by(workspaces.c.id)


@lru_cache
def _lock_them(count: int, *, skip_locked: bool = False) -> Select[Any]:
    return _workspaces(count).with_for_update(skip_locked=skip_locked)


@lru_cache
def _requests(count: int) -> Select[Any]:
    return select(asks.c.id, asks.c.request_id).where(
        asks.c.workspace_id == bindparam("workspace_id"), asks.c.request_id.in_(binds("id", count))
    )


@lru_cache
def _sessions(count: int) -> Select[Any]:
    return select(sessions).where(
        sessions.c.workspace_id == bindparam("workspace_id"), sessions.c.session_id.in_(binds("id", count))
    )


def _revisions(connection: Connection, ids: set[str], memory: Memory) -> dict[str, int]:
    """The workspaces' revisions. Who remembers them has the database to itself, and need not lock the rows."""
    if ids <= memory.revisions.keys():
        return {key: memory.revisions[key] for key in ids}
    return _lock(connection, ids)


def _lock(connection: Connection, ids: set[str]) -> dict[str, int]:
    wanted = padded(sorted(ids))
    statement, values = _lock_them(len(wanted)), numbered("id", wanted)
    found = dict(fetch(connection, statement, values))
    if missing := ids - found.keys():
        insert_missing(connection, workspaces, [{"id": key, "revision": 0} for key in sorted(missing)])
        found = dict(fetch(connection, statement, values))
    return found


def find_locked(connection: Connection, ids: set[str]) -> set[str]:
    """The workspaces whose rows others keep locked. Locks the rest of them for as long as the transaction lasts."""
    wanted = padded(sorted(ids))
    values = numbered("id", wanted)
    free = dict(fetch(connection, _lock_them(len(wanted), skip_locked=True), values))
    return dict(fetch(connection, _workspaces(len(wanted)), values)).keys() - free.keys()


def _load_requests(connection: Connection, wanted: Mapping[str, set[bytes]], state: State) -> None:
    for workspace_id, ids in wanted.items():
        for ask_id, request_id in _fetch_in(connection, _requests, workspace_id, sorted(ids)):
            state.requests[workspace_id, request_id.decode()] = ask_id


def _load_sessions(connection: Connection, keys: set[SessionKey | None], memory: Memory, state: State) -> None:
    wanted: dict[str, list[str]] = {}
    for key in keys:
        if key in memory.sessions:
            state.sessions[key] = memory.sessions[key]
        elif key:
            wanted.setdefault(key[0], []).append(key[1])
    for workspace_id, ids in wanted.items():
        for session in map(rows.to_session, _fetch_in(connection, _sessions, workspace_id, ids)):
            state.sessions[workspace_id, session.session_id] = session


def _fetch_in(
    connection: Connection, statement: Callable[[int], Select[Any]], workspace_id: str, ids: Sequence[Any]
) -> Sequence[Any]:
    wanted = padded(ids)
    return fetch(connection, statement(len(wanted)), numbered("id", wanted) | {"workspace_id": workspace_id})


def _load_turns(connection: Connection, keys: set[TurnKey | None], memory: Memory, state: State) -> None:
    state.turns = {key: memory.turns[key] for key in keys if key in memory.turns}
    wanted = padded(sorted(key for key in keys if key and key not in state.turns))
    if not wanted:
        return
    named = {f"{name}{index}": part for index, key in enumerate(wanted) for name, part in zip("wst", key, strict=True)}
    for turn in map(rows.to_turn, fetch(connection, _turns(len(wanted)), named)):
        state.turns[turn.workspace_id, turn.session_id, turn.turn_id] = turn


@lru_cache
def _turns(size: int) -> TextClause:
    # Joined to a table of keys, because SQLite takes no index for a row value IN a list.
    keys = ", ".join(f"(:w{index}, :s{index}, :t{index})" for index in range(size))
    columns = ", ".join(f"turns.{column.name}" for column in turns.c)
    return text(
        f"WITH wanted (w, s, t) AS (VALUES {keys}) SELECT {columns} FROM wanted JOIN turns"  # noqa: S608
        " ON turns.workspace_id = wanted.w AND turns.session_id = wanted.s AND turns.turn_id = wanted.t"
    )


def _load_pending(connection: Connection, key: tuple[str, ...]) -> tuple[list[str], int]:
    """The first ids and the number of the pending asks of a session or a turn."""
    columns = (asks.c.workspace_id, asks.c.session_id, asks.c.turn_id)
    within = [column == part for column, part in zip(columns, key, strict=False)]
    within.append(equals(asks.c.status, rows.STATUS_CODES[AskStatus.PENDING]))
    first = select(asks.c.id).where(*within).order_by(asks.c.created_revision).limit(UNJOINED)
    count = connection.scalar(select(func.count()).select_from(asks).where(*within))
    return list(connection.scalars(first)), count or 0


# --- writing ---


def write(connection: Connection, state: State) -> None:
    """Write what changed, one statement a table."""
    parts = [rows.question_part(ask) for ask in state.created]
    parts += [part for ask in state.resolved for part in rows.resolution_parts(ask)]
    if state.created:
        insert_all(connection, asks, [rows.created(ask) for ask in state.created])
    if state.resolved:
        update_all(connection, asks, [rows.resolved(ask) for ask in state.resolved])
    if parts:
        insert_all(connection, payloads, parts)
    if state.changed_sessions:
        changed = [state.sessions[key] for key in sorted(state.changed_sessions)]
        upsert(connection, sessions, [rows.session_row(session) for session in changed])
    if state.changed_turns:
        upsert(connection, turns, [rows.turn_row(state.turns[key]) for key in sorted(state.changed_turns)])
    if advanced := {ask.workspace_id for ask in (*state.created, *state.resolved)}:
        revisions = [{"id": key, "revision": state.revisions[key]} for key in sorted(advanced)]
        update_all(connection, workspaces, revisions)


def keep(state: State, memory: Memory) -> None:
    """Leave in memory what the next batch may need."""
    memory.revisions |= state.revisions
    for session_key, session in state.sessions.items():
        memory.keep_session(session_key, session)
    for turn_key, turn in state.turns.items():
        memory.keep_turn(turn_key, turn)
