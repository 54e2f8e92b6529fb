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
    op.create_table(
        "turns",
        sa.Column("workspace_id", sa.Text, primary_key=True),
        sa.Column("session_id", sa.Text, primary_key=True),
        sa.Column("turn_id", sa.Text, primary_key=True),
        sa.Column("question_bytes", sa.BigInteger, nullable=False),
    )
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
        sa.Column("resolved_at", sa.BigInteger),
        sa.Column("resolved_revision", sa.BigInteger),
        sa.Column("resolved_by", sa.Text),
        sa.Column("resolution_id", sa.Text),
        sa.Column("answer_id", sa.LargeBinary),
        sa.Column("cancel_reason", sa.Text),
        sa.Column("payload_bytes", sa.BigInteger, nullable=False),
    )
    for name, columns, unique, where in (
        ("asks_created", ["workspace_id", "created_revision"], True, None),
        ("asks_resolved", ["workspace_id", "resolved_revision"], True, "resolved_revision IS NOT NULL"),
        ("asks_request", ["workspace_id", "request_id"], True, "request_id IS NOT NULL"),
        ("asks_status", ["workspace_id", "status", "created_revision"], False, None),
        ("asks_session", ["workspace_id", "session_id", "status", "created_revision"], False, None),
        (
            "asks_turn",
            ["workspace_id", "session_id", "turn_id", "status", "created_revision"],
            False,
            "turn_id IS NOT NULL",
        ),
    ):
        condition = None if where is None else sa.text(where)
        op.create_index(name, "asks", columns, unique=unique, sqlite_where=condition, postgresql_where=condition)


def _create_keys() -> None:
    op.create_table(
        "keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("name", sa.LargeBinary, nullable=False),
        sa.Column("secret_hash", sa.LargeBinary, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("revoked_at", sa.BigInteger),
    )
    op.create_table(
        "grants",
        sa.Column("principal", sa.Text, primary_key=True),
        sa.Column("role", sa.Text, primary_key=True),
        sa.Column("workspace_id", sa.Text, primary_key=True),
    )
