"""Copying a store to another database, ids and revisions intact."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from sqlalchemy import URL, Connection, Table, create_engine, insert, select, tuple_
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.util import greenlet_spawn

from askd.store.database import StartError, open_database, parse_url
from askd.store.tables import metadata, probes

#: Rows in one statement.
CHUNK = 500

#: Where a store is written down. The health check's row is no part of it.
TABLES = [table for table in metadata.sorted_tables if table is not probes]

Progress = Callable[[str, int], None]


async def copy_store(source_url: str, target_url: str, progress: Progress) -> None:
    """Copy everything that is stored, as of one moment, in one transaction. `progress` hears of each table and its
    number of rows. Raises StartError: where the target has rows already, and where either cannot be used."""
    if parse_url(source_url) == parse_url(target_url):
        raise StartError("the two databases are the same")
    try:
        async with _connected(source_url) as source, _connected(target_url, is_target=True) as target:
            # Both connections are used as synchronous ones, which those of asyncpg are within a greenlet.
            await greenlet_spawn(copy_rows, source, target, progress)
    except SQLAlchemyError as error:
        raise StartError(f"the copy failed: {getattr(error, 'orig', None) or error}") from error


def copy_rows(source: Connection, target: Connection, progress: Progress) -> None:
    """Copy every row and commit."""
    for table in TABLES:
        if target.execute(select(table).limit(1)).first() is not None:
            raise StartError(f"the target is not empty: it has rows in {table.name!r}")
    for table in TABLES:
        progress(table.name, _copy_table(source, target, table))
    target.commit()


def _copy_table(source: Connection, target: Connection, table: Table) -> int:
    key = list(table.primary_key)
    first = select(table).order_by(*key).limit(CHUNK)
    statement, count = first, 0
    while rows := source.execute(statement).all():
        target.execute(insert(table), [row._asdict() for row in rows])
        count += len(rows)
        last = [getattr(rows[-1], column.name) for column in key]
        statement = first.where(tuple_(*key) > tuple_(*last))
    return count


@asynccontextmanager
async def _connected(url: str, *, is_target: bool = False) -> AsyncIterator[Connection]:
    """A connection on one snapshot of a database whose schema is the program's; a target's may yet be missing."""
    database = open_database(url)  # on SQLite, keeps servers off meanwhile
    try:
        if is_target:
            await database.upgrade()
        await database.check()
        parsed = parse_url(url)
        is_postgres = parsed.get_backend_name() == "postgresql"
        async with (_connected_postgres if is_postgres else _connected_sqlite)(parsed) as connection:
            yield connection
    finally:
        await database.close()


@asynccontextmanager
async def _connected_postgres(url: URL) -> AsyncIterator[Connection]:
    from askd.store.postgres import make_engine

    engine = make_engine(url, 1, "REPEATABLE READ")
    try:
        async with engine.connect() as connection:
            assert connection.sync_connection is not None, "it is connected"  # noqa: S101
            yield connection.sync_connection
    finally:
        await engine.dispose()


@asynccontextmanager
async def _connected_sqlite(url: URL) -> AsyncIterator[Connection]:
    engine = create_engine(url.set(drivername="sqlite"))
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
