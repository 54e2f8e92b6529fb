"""The inserts that both databases spell alike but SQLAlchemy keeps per dialect."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

# Statements are built once: building one costs more than running it.


def _insert(dialect: str, table: Table) -> "sqlite.Insert | postgresql.Insert":
    return postgresql.insert(table) if dialect == "postgresql" else sqlite.insert(table)


@lru_cache
def _insert_missing(dialect: str, table: Table) -> "sqlite.Insert | postgresql.Insert":
    return _insert(dialect, table).on_conflict_do_nothing()


@lru_cache
def _upsert(dialect: str, table: Table) -> "sqlite.Insert | postgresql.Insert":
    statement = _insert(dialect, table)
    others = {column.name: statement.excluded[column.name] for column in table.c if not column.primary_key}
    return statement.on_conflict_do_update(index_elements=list(table.primary_key), set_=others)


def insert_missing(connection: Connection, table: Table, values: Sequence[dict[str, Any]]) -> None:
    """Insert the rows that are not there yet."""
    connection.execute(_insert_missing(connection.dialect.name, table), values)


def upsert(connection: Connection, table: Table, values: Sequence[dict[str, Any]]) -> None:
    """Insert the rows, or set their other columns where the primary key is there."""
    connection.execute(_upsert(connection.dialect.name, table), values)
