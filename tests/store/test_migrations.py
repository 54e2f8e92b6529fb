"""The schema's history (CONTRACT section 10, DESIGN, Databases)."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from importlib import resources
from pathlib import Path

import alembic.op
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, inspect, text
from sqlalchemy.exc import OperationalError
from tests.store.backends import Backend
from tests.store.commands import create
from tests.store.databases import Store, all_rows

from askd.store.database import StartError, open_database
from askd.store.migrations import HEAD
from askd.store.tables import metadata


@pytest.fixture
def empty(backend: Backend, tmp_path: Path) -> str:
    """A database without a schema."""
    return backend.create(tmp_path)


@pytest.fixture(autouse=True)
def _upgrades(backend: Backend) -> None:
    if not backend.upgrades_on_open:
        pytest.skip("its schema is brought up to date by a command of its own")


def tables(connection: Connection) -> set[str]:
    return set(inspect(connection).get_table_names())


def version(connection: Connection) -> str | None:
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def set_version(number: str, connection: Connection) -> None:
    connection.execute(text("UPDATE alembic_version SET version_num = :number"), {"number": number})


def test_the_newest_schema_is_that_of_the_last_version_file() -> None:
    files = resources.files("askd.store.migrations.versions").iterdir()
    assert max(file.name[:4] for file in files if file.name[0].isdigit()) == HEAD


async def test_the_first_start_makes_the_newest_schema(backend: Backend, empty: str) -> None:
    await open_database(empty).close()
    assert backend.run(empty, version) == HEAD
    assert backend.run(empty, tables) == {*metadata.tables, "alembic_version"}


def test_the_migrated_schema_is_that_of_the_tables(backend: Backend, url: str) -> None:
    assert backend.run(url, _differences) == []


def _differences(connection: Connection) -> list[object]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


def test_the_migrated_schema_is_that_of_the_tables_in_what_alembic_does_not_compare(backend: Backend, url: str) -> None:
    """Defaults, and the conditions of partial indexes."""
    migrated = backend.run(url, _described)
    backend.run(url, _make_anew)
    assert migrated == backend.run(url, _described)
    assert "where" in repr(migrated).lower()


def _described(connection: Connection) -> object:
    found = inspect(connection)
    return _plain([found.get_multi_columns(), found.get_multi_indexes(), found.get_multi_pk_constraint()])


def _plain(value: object) -> object:
    """The value with texts in place of SQLAlchemy's objects, in an order of its own."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items() if key != (None, "alembic_version")}
        case list():
            return sorted(map(_plain, value), key=repr)
    return str(value)


def _make_anew(connection: Connection) -> None:
    metadata.drop_all(connection)
    metadata.create_all(connection)


async def test_a_start_on_the_newest_schema_changes_nothing(backend: Backend, url: str) -> None:
    database = open_database(url)
    await Store(database=database).ask(create())
    before = await database.read(all_rows)
    await database.close()
    database = open_database(url)
    assert await database.read(all_rows) == before
    await database.close()


@pytest.mark.parametrize("newer", ["0999", "9999", "f00d"])
async def test_a_newer_schema_ends_the_start_and_stays_as_it_is(backend: Backend, url: str, newer: str) -> None:
    backend.run(url, partial(set_version, newer))
    with pytest.raises(StartError, match=f"newer than this program.*{newer}") as refused:
        open_database(url)
    assert "\n" not in str(refused.value)
    assert backend.run(url, version) == newer
    backend.run(url, partial(set_version, HEAD))
    await open_database(url).close()  # the refused start let go of everything


STATEMENTS = ["create_table", "create_index"]


def breaking(monkeypatch: pytest.MonkeyPatch, at: int, fault: Callable[[], None]) -> None:
    """Have a fault happen instead of the schema's statement of that number, from 0."""
    counted = iter(range(1000))

    def instead(real: Callable[..., object], *arguments: object, **named: object) -> None:
        if next(counted) == at:
            fault()
        real(*arguments, **named)

    for name in STATEMENTS:
        monkeypatch.setattr(alembic.op, name, partial(instead, getattr(alembic.op, name)))


def no_space() -> None:
    raise OperationalError("CREATE", {}, Exception("database or disk is full"))


def unforeseen() -> None:
    raise ZeroDivisionError


@pytest.mark.parametrize("at", [0, 1, 5, 12])
async def test_a_migration_that_fails_leaves_nothing_half(
    backend: Backend, empty: str, at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        breaking(broken, at, no_space)
        with pytest.raises(StartError, match="database or disk is full") as refused:
            open_database(empty)
    assert "\n" not in str(refused.value)
    assert not backend.run(empty, tables)
    await open_database(empty).close()
    assert backend.run(empty, version) == HEAD


async def test_a_start_that_fails_in_an_unforeseen_way_lets_go_of_the_database(
    backend: Backend, empty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It once kept the lock, so that the same process could not try again."""
    with monkeypatch.context() as broken:
        breaking(broken, 3, unforeseen)
        with pytest.raises(ZeroDivisionError):
            open_database(empty)
    await open_database(empty).close()


_KILLED = """
import sys, os, alembic.op
from askd.store.database import open_database
made = []
real = alembic.op.create_index
def create_index(name, *arguments, **named):
    made.append(name)
    if len(made) == 4:
        os._exit(9)
    real(name, *arguments, **named)
alembic.op.create_index = create_index
open_database(sys.argv[1])
"""


def test_a_program_killed_in_the_middle_of_a_migration_leaves_nothing_half(backend: Backend, empty: str) -> None:
    killed = subprocess.run([sys.executable, "-c", _KILLED, empty], env=os.environ, check=False)
    assert killed.returncode == 9
    assert not backend.run(empty, tables)
    asyncio.run(_open_and_close(empty))
    assert backend.run(empty, version) == HEAD


async def _open_and_close(url: str) -> None:
    await open_database(url).close()
