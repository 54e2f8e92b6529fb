"""How statements run: compiled once a database, handed to the driver as they are.

What SQLAlchemy does at each run costs several times what the statement does. What is lost by going past it is its
handling of errors, which is here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn, cast

from sqlalchemy import (
    BindParameter,
    Column,
    ColumnElement,
    Connection,
    Dialect,
    Executable,
    Table,
    bindparam,
    literal_column,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

from askd.store.lists import power_of_two

#: Rows in one statement: with the widest table far below what either database takes as parameters.
ROWS = 256

_Rows = Sequence[Any]


def fetch(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> _Rows:
    """Run a query and return its rows, as tuples. The statement is compiled once and kept: build it once, too."""
    text, names, given = _compiled(connection.dialect, statement)
    return run(connection, text, tuple([values[name] if name in values else given[name] for name in names]), rows=True)


@lru_cache(1024)
def _compiled(dialect: Dialect, statement: Executable) -> tuple[str, Sequence[str], Mapping[str, Any]]:
    # What is executable and no clause cannot be compiled; there are only clauses here.
    compiled = cast("SQLCompiler", statement.compile(dialect=dialect))  # type: ignore[attr-defined]
    given = {name: bind.value for name, bind in compiled.binds.items() if not bind.required}
    return compiled.string, compiled.positiontup or (), given


def run(connection: Connection, text: str, parameters: Sequence[Any], *, rows: bool = False) -> _Rows:
    """Run the text of a statement, and return its rows where it is a query."""
    cursor = connection.connection.cursor()
    try:
        cursor.execute(text, parameters)
        return cursor.fetchall() if rows else ()
    except connection.dialect.loaded_dbapi.Error as error:
        _fail(connection, cursor, error)
    finally:
        cursor.close()


def _fail(connection: Connection, cursor: Any, error: Exception) -> NoReturn:
    """Raise what SQLAlchemy would, without the statement and its parameters, which hold what users wrote."""
    dialect = connection.dialect
    # It is None only where the pool has the connection back.
    if gone := dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor):  # type: ignore[arg-type]
        connection.invalidate(error)
    raise DBAPIError.instance(
        None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
    ) from error


def equals(column: Column[Any], value: int) -> ColumnElement[bool]:
    """The condition that a column has a value, which stands in the text. Where a partial index may serve, SQLite would
    plan anew at each run for a parameter's value, and PostgreSQL leave the index out."""
    return column == literal_column(str(value))


# --- lists ---


def binds(name: str, count: int) -> list[BindParameter[Any]]:
    """Parameters for so many values; numbered() gives them."""
    return [bindparam(f"{name}_{index}") for index in range(count)]


def numbered(name: str, values: Iterable[Any]) -> dict[str, Any]:
    """The values of parameters that binds() made."""
    return {f"{name}_{index}": value for index, value in enumerate(values)}


# --- many rows at once ---
# As text, since SQLAlchemy compiles many rows slowly; what is written here both databases spell alike.


def insert_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, each with the same columns."""
    _run_all(connection, table, rows, _insert)


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows that are not there yet."""
    _run_all(connection, table, rows, _insert_missing)


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows, or set their other columns where the primary key is there."""
    _run_all(connection, table, rows, _upsert)


def update_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set columns of rows by the table's only key. A column named `added_NAME` is added to the column NAME."""
    _run_all(connection, table, rows, _update)


_Names = tuple[str, ...]
#: What is done with the rows that are given, as text.
_Use = Callable[[Table, _Names], str]


def _run_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], use: _Use) -> None:
    """Run a statement for rows: a power of two of them at once, so that there are few statements and each stays
    prepared. The rows that are missing are null, which the statement leaves out."""
    names = tuple(rows[0])
    for start in range(0, len(rows), ROWS):
        chunk = rows[start : start + ROWS]
        count = power_of_two(len(chunk))
        values = [value for row in chunk for value in row.values()]
        values += [None] * ((count - len(chunk)) * len(names))
        run(connection, _text(connection.dialect, table, names, count, use), tuple(values))


@lru_cache(512)
def _text(dialect: Dialect, table: Table, names: _Names, count: int, use: _Use) -> str:
    return _given(dialect, table, names, count) + use(table, names)


def _insert(table: Table, names: _Names) -> str:
    columns = ", ".join(names)
    return f"INSERT INTO {table.name} ({columns}) SELECT {columns} FROM given WHERE {names[0]} IS NOT NULL"  # noqa: S608


def _insert_missing(table: Table, names: _Names) -> str:
    return f"{_insert(table, names)} ON CONFLICT DO NOTHING"


def _upsert(table: Table, names: _Names) -> str:
    key = ", ".join(column.name for column in table.primary_key)
    others = ", ".join(f"{column.name} = excluded.{column.name}" for column in table.c if not column.primary_key)
    return f"{_insert(table, names)} ON CONFLICT ({key}) DO UPDATE SET {others}"


def _update(table: Table, names: _Names) -> str:
    (key,) = table.primary_key
    changes = ", ".join(
        f"{name} = given.{name}" if name in table.c else f"{added} = {table.name}.{added} + given.{name}"
        for name in names
        if name != key.name
        for added in [name.removeprefix("added_")]
    )
    return f"UPDATE {table.name} SET {changes} FROM given WHERE {table.name}.{key.name} = given.{key.name}"  # noqa: S608


def _given(dialect: Dialect, table: Table, names: _Names, count: int) -> str:
    types = [_column(table, name).type.compile(dialect) for name in names]
    if dialect.paramstyle == "qmark":
        marks = ["?"] * (count * len(types))
    else:
        marks = [f"${index + 1}::{types[index % len(types)]}" for index in range(count * len(types))]
    rows = [f"({', '.join(marks[start : start + len(types)])})" for start in range(0, len(marks), len(types))]
    return f"WITH given ({', '.join(names)}) AS (VALUES {', '.join(rows)}) "


def _column(table: Table, name: str) -> Column[Any]:
    return table.c[name if name in table.c else name.removeprefix("added_")]
