"""The inserts that both databases spell alike but SQLAlchemy keeps per dialect."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def _insert(connection: Connection, table: Table) -> "sqlite.Insert | postgresql.Insert":
    if connection.dialect.name == "postgresql":
        return postgresql.insert(table)
    return sqlite.insert(table)


def insert_missing(connection: Connection, table: Table, values: Sequence[dict[str, Any]]) -> None:
    """Insert the rows that are not there yet."""
    connection.execute(_insert(connection, table).on_conflict_do_nothing(), values)


def upsert(connection: Connection, table: Table, values: Sequence[dict[str, Any]]) -> None:
    """Insert the rows, or set their other columns where the primary key is there."""
    statement = _insert(connection, table)
    others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    keys = list(table.primary_key)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=others), values)
