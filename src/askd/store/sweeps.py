"""What the sweeper looks for and erases: asks that are due, ends that are not finished, payloads past their time."""

from sqlalchemy import Connection, delete, select, update

from askd.domain.asks import AskStatus
from askd.domain.sessions import Session, Turn
from askd.store.lists import padded
from askd.store.rows import STATUS_CODES, fitting, to_session, to_turn
from askd.store.statements import equals
from askd.store.tables import asks, payloads, sessions, turns

#: Asks in one chunk, and the bytes of payload that they may have: a chunk delays other changes by one batch.
CHUNK = 25
CHUNK_BYTES = 4 * 1024 * 1024

_PENDING = equals(asks.c.status, STATUS_CODES[AskStatus.PENDING])


def load_due(connection: Connection, now: int) -> dict[str, list[str]]:
    """The ids of a chunk of asks past their expiry, by workspace, the longest past first."""
    statement = select(asks.c.id, asks.c.workspace_id, asks.c.payload_bytes)
    statement = statement.where(_PENDING, asks.c.expires_at <= now).order_by(asks.c.expires_at).limit(CHUNK)
    due: dict[str, list[str]] = {}
    for row in fitting(connection.execute(statement).all(), CHUNK_BYTES):
        due.setdefault(row.workspace_id, []).append(row.id)
    return due


def load_ends(connection: Connection) -> list[Session | Turn]:
    """Ended sessions and turns that may have pending asks left, a chunk of each."""
    ended_sessions = connection.execute(select(sessions).where(equals(sessions.c.ending, 1)).limit(CHUNK)).all()
    ended_turns = connection.execute(select(turns).where(equals(turns.c.ending, 1)).limit(CHUNK)).all()
    return [*map(to_session, ended_sessions), *map(to_turn, ended_turns)]


def load_left(connection: Connection, end: Session | Turn) -> list[str]:
    """The ids of a chunk of asks that an end has yet to cancel."""
    statement = select(asks.c.id, asks.c.payload_bytes).where(
        asks.c.workspace_id == end.workspace_id, asks.c.session_id == end.session_id, _PENDING
    )
    if isinstance(end, Turn):
        statement = statement.where(asks.c.turn_id == end.turn_id)
    found = connection.execute(statement.order_by(asks.c.created_revision).limit(CHUNK)).all()
    return [row.id for row in fitting(found, CHUNK_BYTES)]


def finish_end(connection: Connection, end: Session | Turn) -> None:
    """Note that an end has cancelled all its asks."""
    table = turns if isinstance(end, Turn) else sessions
    statement = update(table).values(ending=0)
    statement = statement.where(table.c.workspace_id == end.workspace_id, table.c.session_id == end.session_id)
    if isinstance(end, Turn):
        statement = statement.where(turns.c.turn_id == end.turn_id)
    connection.execute(statement)


def erase_payloads(connection: Connection, resolved_before: int) -> set[str]:
    """Erase the payloads of a chunk of asks resolved before a time. Returns their workspaces."""
    statement = select(asks.c.id, asks.c.workspace_id, asks.c.payload_bytes)
    statement = statement.where(asks.c.resolved_at < resolved_before, equals(asks.c.payload_expired, 0))
    # Other servers erase, too: each takes what no other has locked.
    statement = statement.order_by(asks.c.resolved_at).limit(CHUNK).with_for_update(skip_locked=True)
    found = fitting(connection.execute(statement).all(), CHUNK_BYTES)
    ids = [row.id for row in found]
    if ids:
        connection.execute(delete(payloads).where(payloads.c.ask_id.in_(padded(ids))))
        connection.execute(update(asks).where(asks.c.id.in_(padded(ids))).values(payload_expired=1, payload_bytes=0))
    return {row.workspace_id for row in found}
