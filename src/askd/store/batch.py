"""The batch: many commands decided in order and written in one transaction (DESIGN, second idea)."""

from collections.abc import Mapping, Sequence

from sqlalchemy import Connection

from askd.domain import asks as rules
from askd.domain import sessions as session_rules
from askd.domain.asks import Ask, AskDraft, AskEvent, CancelAsks, CreateAsk, ResolveAsk
from askd.domain.errors import AskdError
from askd.domain.sessions import UNJOINED, Command, EndSession, EndTurn, OpenSession, Session, Turn
from askd.domain.values import value
from askd.store.memory import Memory
from askd.store.state import State, keep, load, session_of, turn_of, write


@value
class Outcome:
    """What became of a command: the ask where it was about one; the session or turn where it ended one, with the first
    ids of the asks that were left unjoined."""

    ask: Ask | None = None
    end: Session | Turn | None = None
    unjoined: Sequence[str] = ()


@value
class Applied:
    """The outcomes of commands, in their order, and the events of what changed, in revision order a workspace."""

    outcomes: Sequence[Outcome | AskdError]
    events: Sequence[AskEvent]


def apply(
    connection: Connection,
    commands: Sequence[Command],
    now: int,
    *,
    uncertain: bool = False,
    memory: Memory | None = None,
    pending: Mapping[str, Ask] = {},
) -> Applied:
    """Decide the commands in order, each seeing the outcomes before it, and write what changed.

    The caller commits, and then confirms the commands to `memory`, where it has one. `pending` are asks that are known
    to be so. `uncertain` says that an earlier attempt may have been committed: a command whose own id is found in the
    database was done by that attempt.

    1. Lock the workspaces' rows: from here on the revision order is the commit order.
    2. Load what the commands touch.
    3. Decide.
    4. Write.
    """
    memory = memory or Memory()
    memory.begin(commands)
    state = load(connection, commands, now, uncertain=uncertain, memory=memory, pending=pending)
    outcomes = [_decide(state, command) for command in commands]
    write(connection, state)
    keep(state, memory)
    return Applied(outcomes=outcomes, events=state.events)


def _decide(state: State, command: Command) -> Outcome | AskdError:
    try:
        match command:
            case CreateAsk():
                return _create(state, command)
            case ResolveAsk():
                return _resolve(state, command)
            case CancelAsks():
                return _cancel(state, command)
            case EndTurn():
                return _end_turn(state, command)
            case OpenSession():
                return _open_session(state, command)
            case EndSession():
                return _end_session(state, command)
    except AskdError as error:
        return error.with_traceback(None)  # its frames hold the whole batch


def _create(state: State, command: CreateAsk) -> Outcome:
    workspace_id = command.access.workspace_id
    request = (workspace_id, command.request_id or "")
    known = state.asks.get(state.requests.get(request, command.ask_id))
    if known is not None:
        if known.id == command.ask_id:  # by an earlier attempt: told again, and whoever heard of it drops it
            state.events.append(rules.created(known))
        return Outcome(ask=rules.asked_before(command, known))
    if isinstance(command.draft, AskdError):
        raise command.draft
    _enter(state, command, command.draft)
    ask = rules.create(command, command.draft, state.now, state.next_revision(workspace_id))
    state.add(ask)
    if command.request_id is not None:
        state.requests[request] = ask.id
    return Outcome(ask=ask)


def _enter(state: State, command: CreateAsk, draft: AskDraft) -> None:
    """Use the session and charge the turn, which come into being at their first use."""
    workspace_id = command.access.workspace_id
    session_key, turn_key = session_of(command), turn_of(command)
    session = state.sessions.get(session_key) if session_key else None
    turn = state.turns.get(turn_key) if turn_key else None
    session_rules.check_open(session, turn)
    if draft.turn_id is not None:
        turn = turn or Turn(workspace_id=workspace_id, session_id=draft.session_id, turn_id=draft.turn_id)
        state.put_turn(session_rules.charge(turn, draft.questions.encoded_size))
    if session is None:
        state.put_session(Session(workspace_id=workspace_id, session_id=draft.session_id))


def _resolve(state: State, command: ResolveAsk) -> Outcome:
    workspace_id, expiry_id = command.access.workspace_id, command.id + "/expired"
    before = state.asks.get(command.ask_id)
    if before is not None and before.workspace_id == workspace_id and rules.is_due(before, state.now):
        before = rules.expire(before, state.now, state.next_revision(workspace_id), expiry_id)
        state.put(before)
    elif before is not None and before.resolution_id == expiry_id:  # by an earlier attempt: told again
        state.events.append(rules.resolved(before))
    ask = rules.resolve(command, before, state.now, state.next_revision(workspace_id))
    if ask is not before:
        state.put(ask)
    elif ask.resolution_id == command.id:
        state.events.append(rules.resolved(ask))
    return Outcome(ask=ask)


def _cancel(state: State, command: CancelAsks) -> Outcome:
    for ask_id in command.ask_ids:
        before = state.asks.get(ask_id)
        if before is None or before.workspace_id != command.workspace_id:
            continue
        ask = rules.cancel(before, command, state.now, state.next_revision(command.workspace_id))
        if ask is not before:
            state.put(ask)
        elif ask.resolution_id == command.id:
            state.events.append(rules.resolved(ask))
    return Outcome()


def _open_session(state: State, command: OpenSession) -> Outcome:
    key = command.access.workspace_id, command.session_id
    known = state.sessions.get(key)
    session = session_rules.open_session(command, known)
    if session is not known:
        state.put_session(session)
    return Outcome()


def _end_session(state: State, command: EndSession) -> Outcome:
    key = command.access.workspace_id, command.session_id
    known = state.sessions.get(key)
    session = session_rules.end_session(command, known, state.pending_in(key)[1], state.now)
    if session is not known:
        state.put_session(session)
    return Outcome(end=session)


def _end_turn(state: State, command: EndTurn) -> Outcome:
    key = command.access.workspace_id, command.session_id, command.turn_id
    ids, count = state.pending_in(key)
    known = state.turns.get(key)
    turn = session_rules.end_turn(command, known, count, state.now)
    if turn is known:
        return Outcome(end=turn)
    state.put_turn(turn)
    if key[:2] not in state.sessions:
        state.put_session(Session(workspace_id=key[0], session_id=key[1]))
    return Outcome(end=turn, unjoined=ids[:UNJOINED] if turn.unjoined_count else ())
