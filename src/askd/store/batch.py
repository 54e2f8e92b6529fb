"""The batch: many commands decided in order and written in one transaction (DESIGN, second idea)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, bindparam, insert, select, update

from askd.domain import asks as rules
from askd.domain.asks import Ask, AskEvent, Command, CreateAsk, ResolveAsk
from askd.domain.errors import AskdError
from askd.store import rows
from askd.store.queries import load_asks
from askd.store.tables import asks, payloads, turns, workspaces
from askd.store.upserts import insert_missing, upsert

Turn = tuple[str, str, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """What became of a command: the ask, and the event where something changed."""

    ask: Ask
    event: AskEvent | None = None


@dataclass(kw_only=True, slots=True)
class _State:
    """What a batch touches, as of the command decided last."""

    now: int
    revisions: dict[str, int]
    asks: dict[str, Ask]
    requests: dict[tuple[str, str], str]
    turn_bytes: dict[Turn, int]
    created: list[Ask] = field(default_factory=list)
    resolved: list[Ask] = field(default_factory=list)


def apply(
    connection: Connection, commands: Sequence[Command], now: int, *, uncertain: bool = False
) -> list[Outcome | AskdError]:
    """Decide the commands in order, each seeing the outcomes before it, and write what changed.

    The caller commits. `uncertain` says that an earlier attempt may have been committed: a command whose own id is
    found in the database was done by that attempt.

    1. Lock the workspaces' rows, sorted: from here on the revision order is the commit order.
    2. Load what the commands touch, one query a table.
    3. Decide.
    4. Write, one statement a table.
    """
    revisions = _lock(connection, {command.access.workspace_id for command in commands})
    state = _load(connection, commands, now, revisions, uncertain)
    outcomes = [_decide(state, command) for command in commands]
    if state.created or state.resolved:
        _write(connection, state)
    return outcomes


def _lock(connection: Connection, ids: set[str]) -> dict[str, int]:
    statement = select(workspaces.c.id, workspaces.c.revision).where(workspaces.c.id.in_(sorted(ids)))
    statement = statement.order_by(workspaces.c.id).with_for_update()
    found = {row.id: row.revision for row in connection.execute(statement)}
    if missing := ids - found.keys():
        insert_missing(connection, workspaces, [{"id": key, "revision": 0} for key in sorted(missing)])
        found = {row.id: row.revision for row in connection.execute(statement)}
    return found


def _load(
    connection: Connection, commands: Sequence[Command], now: int, revisions: dict[str, int], uncertain: bool
) -> _State:
    requests = _load_requests(connection, commands)
    ids = {command.ask_id for command in commands if uncertain or isinstance(command, ResolveAsk)}
    return _State(
        now=now,
        revisions=revisions,
        asks=load_asks(connection, ids.union(requests.values())),
        requests=requests,
        turn_bytes=_load_turns(connection, {turn for command in commands if (turn := _turn(command))}),
    )


def _load_requests(connection: Connection, commands: Sequence[Command]) -> dict[tuple[str, str], str]:
    wanted: dict[str, set[bytes]] = {}
    for command in commands:
        if isinstance(command, CreateAsk) and command.request_id is not None:
            wanted.setdefault(command.access.workspace_id, set()).add(command.request_id.encode())
    found: dict[tuple[str, str], str] = {}
    for workspace_id, ids in wanted.items():
        statement = select(asks.c.id, asks.c.request_id)
        statement = statement.where(asks.c.workspace_id == workspace_id, asks.c.request_id.in_(ids))
        found |= {(workspace_id, row.request_id.decode()): row.id for row in connection.execute(statement)}
    return found


def _turn(command: Command) -> Turn | None:
    match command:
        case CreateAsk(draft=rules.AskDraft(session_id=session_id, turn_id=str() as turn_id)):
            return command.access.workspace_id, session_id, turn_id
    return None


def _load_turns(connection: Connection, wanted: Iterable[Turn]) -> dict[Turn, int]:
    found: dict[Turn, int] = {}
    for workspace_id, session_id in {turn[:2] for turn in wanted}:
        names = [turn[2] for turn in wanted if turn[:2] == (workspace_id, session_id)]
        statement = select(turns.c.turn_id, turns.c.question_bytes).where(
            turns.c.workspace_id == workspace_id, turns.c.session_id == session_id, turns.c.turn_id.in_(names)
        )
        found |= {(workspace_id, session_id, row.turn_id): row.question_bytes for row in connection.execute(statement)}
    return found


def _decide(state: _State, command: Command) -> Outcome | AskdError:
    try:
        return _create(state, command) if isinstance(command, CreateAsk) else _resolve(state, command)
    except AskdError as error:
        return error


def _create(state: _State, command: CreateAsk) -> Outcome:
    workspace_id = command.access.workspace_id
    request = (workspace_id, command.request_id or "")
    turn = _turn(command)
    ask = rules.create(
        command,
        known=state.asks.get(state.requests.get(request, command.ask_id)),
        now=state.now,
        revision=state.revisions[workspace_id] + 1,
        turn_bytes=state.turn_bytes.get(turn, 0) if turn else 0,
    )
    if ask.id in state.asks:
        # Told again where this very command may have stored it: the watchers drop what they have.
        return Outcome(ask=ask, event=rules.created(ask) if ask.id == command.ask_id else None)
    if turn:
        state.turn_bytes[turn] = state.turn_bytes.get(turn, 0) + len(ask.encoded_questions.encode())
    if command.request_id is not None:
        state.requests[request] = ask.id
    state.asks[ask.id] = ask
    state.created.append(ask)
    state.revisions[workspace_id] = ask.created_revision
    return Outcome(ask=ask, event=rules.created(ask))


def _resolve(state: _State, command: ResolveAsk) -> Outcome:
    before = state.asks.get(command.ask_id)
    workspace_id = command.access.workspace_id
    ask = rules.resolve(command, before, state.now, state.revisions[workspace_id] + 1)
    if ask is before:
        return Outcome(ask=ask, event=rules.resolved(ask) if ask.resolution_id == command.id else None)
    state.asks[ask.id] = ask
    state.resolved.append(ask)
    state.revisions[workspace_id] = ask.resolved_revision or 0
    return Outcome(ask=ask, event=rules.resolved(ask))


_RESOLVE = (
    update(asks)
    .where(asks.c.id == bindparam("ask_id"))
    .values(
        {
            name: bindparam(name)
            for name in (
                "status", "resolved_at", "resolved_revision", "resolved_by", "resolution_id", "answer_id",
                "cancel_reason",
            )
        }
        | {"payload_bytes": asks.c.payload_bytes + bindparam("added_bytes")}
    )
)  # fmt: skip
_ADVANCE = (
    update(workspaces).where(workspaces.c.id == bindparam("workspace_id")).values(revision=bindparam("new_revision"))
)


def _write(connection: Connection, state: _State) -> None:
    parts = [rows.question_part(ask) for ask in state.created]
    parts += [part for ask in state.resolved for part in rows.resolution_parts(ask)]
    if state.created:
        connection.execute(insert(asks), [rows.created(ask) for ask in state.created])
    if state.resolved:
        connection.execute(_RESOLVE, [rows.resolved(ask) for ask in state.resolved])
    if parts:
        connection.execute(insert(payloads), parts)
    _write_turns(connection, state)
    changed = {ask.workspace_id for ask in (*state.created, *state.resolved)}
    advanced = [{"workspace_id": key, "new_revision": state.revisions[key]} for key in sorted(changed)]
    connection.execute(_ADVANCE, advanced)


def _write_turns(connection: Connection, state: _State) -> None:
    changed = {(ask.workspace_id, ask.session_id, ask.turn_id) for ask in state.created if ask.turn_id is not None}
    values = [
        dict(zip(("workspace_id", "session_id", "turn_id"), turn, strict=True))
        | {"question_bytes": state.turn_bytes[turn]}
        for turn in sorted(changed)
    ]
    if values:
        upsert(connection, turns, values)
