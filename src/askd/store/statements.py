"""How statements run: compiled once a database, handed to the driver as they are.

What SQLAlchemy does at each run costs several times what the statement does. What is lost by going past it is its
handling of errors, which is here.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NoReturn, cast

from sqlalchemy import BindParameter, Column, Connection, Dialect, Executable, Table, bindparam
from sqlalchemy.exc import DBAPIError
from sqlalchemy.sql.compiler import SQLCompiler

#: Rows in one statement: with the widest table far below what either database takes as parameters.
ROWS = 256

_Rows = Sequence[Any]


def fetch(connection: Connection, statement: Executable, values: Mapping[str, Any]) -> _Rows:
    """Run a query and return its rows, as tuples. The statement is compiled once and kept: build it once, too."""
    text, names, given = _compiled(connection.dialect, statement)
    return run(connection, text, tuple([values[name] if name in values else given[name] for name in names]), rows=True)


@lru_cache(1024)
def _compiled(dialect: Dialect, statement: Executable) -> tuple[str, Sequence[str], Mapping[str, Any]]:
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
    if gone := dialect.is_disconnect(error, connection.connection.dbapi_connection, cursor):  # type: ignore[arg-type]
        connection.invalidate(error)
    raise DBAPIError.instance(
        None, None, error, dialect.loaded_dbapi.Error, connection_invalidated=gone, dialect=dialect
    ) from error


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
    _insert(connection, table, rows, "")


def insert_missing(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows that are not there yet."""
    _insert(connection, table, rows, " ON CONFLICT DO NOTHING")


def upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows, or set their other columns where the primary key is there."""
    key = ", ".join(column.name for column in table.primary_key)
    others = ", ".join(f"{column.name} = excluded.{column.name}" for column in table.c if not column.primary_key)
    _insert(connection, table, rows, f" ON CONFLICT ({key}) DO UPDATE SET {others}")


def update_all(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Set columns of rows by the table's only key. A column named `added_NAME` is added to the column NAME."""
    for chunk in _chunks(rows):
        run(connection, _update_text(connection.dialect, table, tuple(chunk[0]), len(chunk)), _flat(chunk))


def _insert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]], conflict: str) -> None:
    for chunk in _chunks(rows):
        text = _insert_text(connection.dialect, table, tuple(chunk[0]), len(chunk))
        run(connection, text + conflict, _flat(chunk))


def _chunks(rows: Sequence[Mapping[str, Any]]) -> Iterable[Sequence[Mapping[str, Any]]]:
    """Rows in groups of a power of two, so that there are few statements and each stays prepared."""
    start = 0
    while left := len(rows) - start:
        size = min(1 << (left.bit_length() - 1), ROWS)
        yield rows[start : start + size]
        start += size


def _flat(rows: Sequence[Mapping[str, Any]]) -> tuple[Any, ...]:
    return tuple([value for row in rows for value in row.values()])


@lru_cache(256)
def _insert_text(dialect: Dialect, table: Table, names: tuple[str, ...], count: int) -> str:
    return f"INSERT INTO {table.name} ({', '.join(names)}) {_values(dialect, table, names, count)}"


@lru_cache(64)
def _update_text(dialect: Dialect, table: Table, names: tuple[str, ...], count: int) -> str:
    (key,) = table.primary_key
    changes = ", ".join(
        f"{name} = changed.{name}" if name in table.c else f"{added} = {table.name}.{added} + changed.{name}"
        for name in names
        if name != key.name
        for added in [name.removeprefix("added_")]
    )
    return (
        f"WITH changed ({', '.join(names)}) AS ({_values(dialect, table, names, count)})"  # noqa: S608
        f" UPDATE {table.name} SET {changes} FROM changed WHERE {table.name}.{key.name} = changed.{key.name}"
    )


def _values(dialect: Dialect, table: Table, names: Sequence[str], count: int) -> str:
    if dialect.paramstyle == "qmark":
        row = f"({', '.join('?' * len(names))})"
        return "VALUES " + ", ".join([row] * count)
    types = [_column(table, name).type.compile(dialect) for name in names]
    marks = [f"${index + 1}::{types[index % len(types)]}" for index in range(count * len(types))]
    return "VALUES " + ", ".join(
        f"({', '.join(marks[start : start + len(types)])})" for start in range(0, len(marks), len(types))
    )


def _column(table: Table, name: str) -> Column[Any]:
    return table.c[name if name in table.c else name.removeprefix("added_")]
