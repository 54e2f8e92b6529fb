"""What is SQLite's alone: its file, its lock and its disk (CONTRACT section 10, DESIGN, Databases)."""

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import URL, Connection, insert, select
from sqlalchemy.exc import OperationalError
from tests.store.commands import answer, create, reject, text_question
from tests.store.databases import Store

from askd.store import sqlite, sweeps
from askd.store.database import StartError, open_database
from askd.store.probes import probe, probe_by_writing
from askd.store.sqlite import SqliteDatabase
from askd.store.tables import asks, workspaces


def add_workspace(name: str, connection: Connection) -> None:
    connection.execute(insert(workspaces), {"id": name, "revision": 0})


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a database file is to lie."""
    return tmp_path / "askd.db"


def test_a_file_in_no_folder_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="No such file or directory") as refused:
        open_database(f"sqlite+aiosqlite:///{tmp_path / 'nowhere' / 'askd.db'}")
    assert "\n" not in str(refused.value)


def test_a_file_that_is_no_database_ends_the_start_and_stays_as_it_is(file: Path) -> None:
    file.write_bytes(b"no database" * 1000)
    for _ in range(2):
        with pytest.raises(StartError, match="file is not a database") as refused:
            open_database(f"sqlite+aiosqlite:///{file}")
        assert "\n" not in str(refused.value)
    assert file.read_bytes() == b"no database" * 1000


@pytest.mark.parametrize("folder", ["a b", "é%20", "a#b", "a?b=c", "a'b", ":memory:"])
async def test_a_file_may_lie_in_any_folder(tmp_path: Path, folder: str) -> None:
    """A question mark in the path once put the database beside its folder."""
    lies = tmp_path / folder
    lies.mkdir()
    database = SqliteDatabase(URL.create("sqlite", database=str(lies / "askd.db")), beside_server=False)
    await database.write(partial(add_workspace, "w"))
    await database.close()
    assert contents(tmp_path) == [lies, lies / "askd.db", lies / "askd.db.lock"]


def contents(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No long waits for locks."""
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT", 20)


@pytest.fixture
def locked(hasty: None, file: Path) -> Iterator[tuple[str, sqlite3.Connection]]:
    """A database's URL, and another program's connection to its file."""
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        yield f"sqlite+aiosqlite:///{file}", other


async def test_a_file_that_another_program_writes_to_is_unavailable_until_it_is_done(
    locked: tuple[str, sqlite3.Connection],
) -> None:
    url, other = locked
    store = Store(database=open_database(url))
    ask = await store.ask(create())
    other.execute("BEGIN IMMEDIATE")
    for transaction in (probe, partial(add_workspace, "v"), partial(probe_by_writing, now=1)):
        with pytest.raises(OperationalError, match="locked"):
            await store.database.write(transaction)
    assert await store.get(ask.id) == ask  # readers go on
    other.execute("ROLLBACK")
    await store.database.write(partial(add_workspace, "v"))
    await store.database.close()


async def test_a_file_that_another_program_locks_ends_the_start(locked: tuple[str, sqlite3.Connection]) -> None:
    url, other = locked
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StartError, match="locked") as refused:
        open_database(url)
    assert "\n" not in str(refused.value)
    other.execute("ROLLBACK")
    await open_database(url).close()


@pytest.fixture
async def opened(file: Path) -> AsyncIterator[SqliteDatabase]:
    """An open database."""
    database = SqliteDatabase(URL.create("sqlite", database=str(file)), beside_server=False)
    yield database
    await database.close()


async def test_a_full_disk_is_an_error_until_there_is_room(opened: SqliteDatabase) -> None:
    def limit(pages: int, connection: Connection) -> None:
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}")

    def fill(connection: Connection) -> None:
        connection.execute(insert(workspaces), [{"id": f"{n:0500}", "revision": 0} for n in range(500)])

    def count(connection: Connection) -> int:
        return len(connection.execute(select(workspaces)).all())

    await opened.write(partial(limit, 1))  # SQLite takes it for as many as there are
    with pytest.raises(OperationalError, match="full"):
        await opened.write(fill)
    assert await opened.read(count) == 0
    await opened.write(partial(limit, 1_000_000))
    await opened.write(fill)
    assert await opened.read(count) == 500


async def test_an_acknowledged_change_is_on_the_disk(opened: SqliteDatabase) -> None:
    def settings(connection: Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys", "secure_delete")
        return [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in names]

    assert await opened.write(settings) == await opened.read(settings) == ["wal", 2, 1, 1]


# --- what was erased ---


async def test_what_was_erased_is_in_none_of_the_files(opened: SqliteDatabase, file: Path) -> None:
    """Emptying the write-ahead log once failed at every attempt."""
    secrets = [b"SECRET PROMPT", b"SECRET ANSWER", b"SECRET REASON"]
    store = Store(database=opened)
    asks = await store.asks(create(text_question("SECRET PROMPT")), create(text_question("SECRET PROMPT")))
    await store.asks(answer(asks[0], "SECRET ANSWER"), reject(asks[1], "SECRET REASON"))
    assert [secret for secret in secrets if secret in everything(file.parent)] == secrets
    assert await opened.write(lambda connection: sweeps.erase_payloads(connection, store.now + 1))
    assert await opened.scrub()
    assert [secret for secret in secrets if secret in everything(file.parent)] == []
    await store.ask(create())  # the writer is none the worse for it


def everything(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in contents(folder))


async def test_scrubbing_is_to_be_tried_again_while_somebody_reads(hasty: None, opened: SqliteDatabase) -> None:
    store = Store(database=opened)
    ask = await store.ask(create())
    begun, over = threading.Event(), threading.Event()

    def read(connection: Connection) -> bool:
        found = connection.execute(select(asks)).all()
        begun.set()
        return over.wait(10) and found == connection.execute(select(asks)).all()

    reading = asyncio.create_task(opened.read(read))
    await asyncio.to_thread(begun.wait, 10)
    await store.ask(answer(ask))
    assert not await opened.scrub()
    over.set()
    assert await reading
    assert await opened.scrub()
