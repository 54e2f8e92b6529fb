"""Asks, their payloads, turns, workspaces, keys and grants."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the first schema."""
    op.create_table(
        "workspaces",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    _create_sessions()
    _create_asks()
    op.create_table(
        "payloads",
        sa.Column("ask_id", sa.Text, primary_key=True),
        sa.Column("part", sa.SmallInteger, primary_key=True),
        sa.Column("body", sa.Text, nullable=False),
    )
    _create_keys()
    op.create_table(
        "probes",
        sa.Column("id", sa.SmallInteger, primary_key=True),
        sa.Column("probed_at", sa.BigInteger, nullable=False),
    )


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("workspace_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("parent_session_id", sa.Text),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("ended_by", sa.Text),
        sa.Column("ending", sa.SmallInteger, nullable=False, server_default="0"),
    )
    op.create_table(
        "turns",
        sa.Column("workspace_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("question_bytes", sa.BigInteger, nullable=False),
        sa.Column("outcome", sa.Text),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("ended_by", sa.Text),
        sa.Column("unjoined_count", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("ending", sa.SmallInteger, nullable=False, server_default="0"),
    )
    _create_index("sessions_ending", "sessions", ["ending"], where="ending = 1")
    _create_index("turns_ending", "turns", ["ending"], where="ending = 1")


def _create_index(name: str, table: str, columns: list[str], *, unique: bool = False, where: str = "") -> None:
    condition = sa.text(where) if where else None
    op.create_index(name, table, columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _create_asks() -> None:
    op.create_table(
        "asks",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("workspace_id", sa.Text, nullable=False),
        sa.Column("session_id", sa.Text, nullable=False),
        sa.Column("turn_id", sa.Text),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("created_revision", sa.BigInteger, nullable=False),
        sa.Column("asked_by", sa.Text, nullable=False),
        sa.Column("tool_message_id", sa.LargeBinary),
        sa.Column("tool_call_id", sa.LargeBinary),
        sa.Column("request_id", sa.LargeBinary),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("resolved_at", sa.BigInteger),
        sa.Column("resolved_revision", sa.BigInteger),
        sa.Column("resolved_by", sa.Text),
        sa.Column("resolution_id", sa.Text),
        sa.Column("answer_id", sa.LargeBinary),
        sa.Column("cancel_reason", sa.Text),
        sa.Column("payload_bytes", sa.BigInteger, nullable=False),
        sa.Column("payload_expired", sa.SmallInteger, nullable=False, server_default="0"),
    )
    _create_index("asks_created", "asks", ["workspace_id", "created_revision"], unique=True)
    where = "resolved_revision IS NOT NULL"
    _create_index("asks_resolved", "asks", ["workspace_id", "resolved_revision"], unique=True, where=where)
    where = "request_id IS NOT NULL"
    _create_index("asks_request", "asks", ["workspace_id", "request_id"], unique=True, where=where)
    listed = ["status", "created_revision"]
    _create_index("asks_status", "asks", ["workspace_id", *listed])
    _create_index("asks_session", "asks", ["workspace_id", "session_id", *listed])
    where = "turn_id IS NOT NULL"
    _create_index("asks_turn", "asks", ["workspace_id", "session_id", "turn_id", *listed], where=where)
    _create_index("asks_expiry", "asks", ["expires_at"], where="status = 1 AND expires_at IS NOT NULL")
    where = "resolved_at IS NOT NULL AND payload_expired = 0"
    _create_index("asks_retention", "asks", ["resolved_at"], where=where)


def _create_keys() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "grants",
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("workspace_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True, server_default=""),
    )
