"""The tables. Columns have the proto's names; times are UTC microseconds since 1970.

Texts that may hold U+0000 are kept as bytes or as JSON, since PostgreSQL's text cannot hold it.
"""

from sqlalchemy import BigInteger, Column, Index, LargeBinary, MetaData, SmallInteger, Table, Text, and_

metadata = MetaData()

workspaces = Table(
    "workspaces",
    metadata,
    Column("id", Text, primary_key=True),
    Column("revision", BigInteger, nullable=False),
)

sessions = Table(
    "sessions",
    metadata,
    Column("workspace_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("parent_session_id", Text),
    Column("ended_at", BigInteger),
    Column("ended_by", Text),
    # 1 while asks may be left that the end has yet to cancel.
    Column("ending", SmallInteger, nullable=False, server_default="0"),
)

turns = Table(
    "turns",
    metadata,
    Column("workspace_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("turn_id", Text, primary_key=True),
    # What the turn's questions encode to together.
    Column("question_bytes", BigInteger, nullable=False),
    Column("outcome", Text),
    Column("ended_at", BigInteger),
    Column("ended_by", Text),
    Column("unjoined_count", BigInteger, nullable=False, server_default="0"),
    # 1 while asks may be left that the end has yet to cancel.
    Column("ending", SmallInteger, nullable=False, server_default="0"),
)

for _table in (sessions, turns):
    _ending = _table.c.ending == 1
    Index(f"{_table.name}_ending", _table.c.ending, sqlite_where=_ending, postgresql_where=_ending)

asks = Table(
    "asks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("workspace_id", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("turn_id", Text),
    Column("status", SmallInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_revision", BigInteger, nullable=False),
    Column("asked_by", Text, nullable=False),
    Column("tool_message_id", LargeBinary),
    Column("tool_call_id", LargeBinary),
    Column("request_id", LargeBinary),
    Column("expires_at", BigInteger),
    Column("resolved_at", BigInteger),
    Column("resolved_revision", BigInteger),
    Column("resolved_by", Text),
    Column("resolution_id", Text),
    Column("answer_id", LargeBinary),
    Column("cancel_reason", Text),
    # What the payload takes as JSON: bounds a page before it is read.
    Column("payload_bytes", BigInteger, nullable=False),
    Column("payload_expired", SmallInteger, nullable=False, server_default="0"),
)

# The event of any revision is found here: the table is its own event log.
Index("asks_created", asks.c.workspace_id, asks.c.created_revision, unique=True)
_resolved = asks.c.resolved_revision.is_not(None)
Index(
    "asks_resolved", asks.c.workspace_id, asks.c.resolved_revision,
    unique=True, sqlite_where=_resolved, postgresql_where=_resolved,
)  # fmt: skip
_requested = asks.c.request_id.is_not(None)
Index(
    "asks_request", asks.c.workspace_id, asks.c.request_id,
    unique=True, sqlite_where=_requested, postgresql_where=_requested,
)  # fmt: skip
# A list in some states is a merge of one range of these for each state.
Index("asks_status", asks.c.workspace_id, asks.c.status, asks.c.created_revision)
Index("asks_session", asks.c.workspace_id, asks.c.session_id, asks.c.status, asks.c.created_revision)
_in_turn = asks.c.turn_id.is_not(None)
Index(
    "asks_turn", asks.c.workspace_id, asks.c.session_id, asks.c.turn_id, asks.c.status, asks.c.created_revision,
    sqlite_where=_in_turn, postgresql_where=_in_turn,
)  # fmt: skip

# What the sweeper looks for.
_expiring = and_(asks.c.status == 1, asks.c.expires_at.is_not(None))
Index("asks_expiry", asks.c.expires_at, sqlite_where=_expiring, postgresql_where=_expiring)
_kept = and_(asks.c.resolved_at.is_not(None), asks.c.payload_expired == 0)
Index("asks_retention", asks.c.resolved_at, sqlite_where=_kept, postgresql_where=_kept)

# What people wrote, apart from the rows that change: parts are written once and erased together.
payloads = Table(
    "payloads",
    metadata,
    Column("ask_id", Text, primary_key=True),
    Column("part", SmallInteger, primary_key=True),
    Column("body", Text, nullable=False),
)

keys = Table(
    "keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", LargeBinary, nullable=False),
    Column("secret_hash", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
)

grants = Table(
    "grants",
    metadata,
    Column("principal", Text, primary_key=True),
    Column("role", Text, primary_key=True),
    Column("workspace_id", Text, primary_key=True),
    Column("session_id", Text, primary_key=True, server_default=""),
)

# One row that the health check writes while writes fail: a full disk is seen in no other way.
probes = Table(
    "probes",
    metadata,
    Column("id", SmallInteger, primary_key=True),
    Column("probed_at", BigInteger, nullable=False),
)
