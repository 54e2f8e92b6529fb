"""What a store runs on: transactions that end whatever their callers do, and databases that cannot be used."""

import asyncio
import threading
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import Connection, insert, select, text
from sqlalchemy.exc import SQLAlchemyError
from tests.conditions import eventually
from tests.store.backends import Backend
from tests.store.databases import Store
from tests.store.stages import away

from askd.domain.errors import AskdError, Code
from askd.store.database import Database, StartError, open_database, refusal, refusing
from askd.store.probes import probe, probe_by_writing
from askd.store.tables import probes, workspaces


def add_workspace(name: str, connection: Connection) -> None:
    connection.execute(insert(workspaces), {"id": name, "revision": 0})


def names(connection: Connection) -> list[str]:
    return list(connection.scalars(select(workspaces.c.id).order_by(workspaces.c.id)))


# --- transactions ---


async def test_what_a_write_did_is_there(database: Database) -> None:
    await database.write(partial(add_workspace, "w"))
    assert await database.read(names) == ["w"]


async def test_a_write_that_raises_did_nothing(database: Database) -> None:
    def fail(connection: Connection) -> None:
        add_workspace("w", connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(fail)
    assert await database.read(names) == []


@pytest.fixture
def threaded(backend: Backend) -> None:
    """Only where a transaction may be held up from within."""
    if not backend.threaded:
        pytest.skip("would hold up the event loop with it")


async def test_a_read_sees_one_moment(threaded: None, database: Database) -> None:
    begun, changed = threading.Event(), threading.Event()

    def read_twice(connection: Connection) -> tuple[list[str], list[str]]:
        first = names(connection)
        begun.set()
        assert changed.wait(10)
        return first, names(connection)

    reading = asyncio.create_task(database.read(read_twice))
    await asyncio.to_thread(begun.wait, 10)
    await database.write(partial(add_workspace, "w"))
    changed.set()
    assert await reading == ([], [])
    assert await database.read(names) == ["w"]


async def test_what_is_committed_before_a_read_is_seen(database: Database) -> None:
    for number in range(20):
        await database.write(partial(add_workspace, f"{number:02}"))
        assert len(await database.read(names)) == number + 1


async def test_a_write_whose_caller_goes_away_is_done_nevertheless(
    threaded: None, backend: Backend, database: Database
) -> None:
    begun, left = threading.Event(), threading.Event()

    def slowly(connection: Connection) -> None:
        begun.set()
        assert left.wait(10)
        add_workspace("w", connection)

    writing = asyncio.create_task(database.write(slowly))
    await asyncio.to_thread(begun.wait, 10)
    writing.cancel()
    await asyncio.wait([writing])
    assert writing.cancelled()
    left.set()
    await eventually(lambda: backend.under_way(database) == 0)
    assert await database.read(names) == ["w"]


@pytest.mark.parametrize("kind", ["read", "write"])
async def test_a_transaction_that_raises_gives_its_connection_back(
    backend: Backend, database: Database, kind: str
) -> None:
    def fail(connection: Connection) -> None:
        connection.execute(text("SELECT nothing FROM nowhere"))

    for _ in range(20):  # more than any pool has
        with pytest.raises(SQLAlchemyError):
            await getattr(database, kind)(fail)
    assert backend.under_way(database) == 0
    await database.write(partial(add_workspace, "w"))


async def test_many_transactions_at_once_all_come_to_pass(backend: Backend, database: Database) -> None:
    writes = [database.write(partial(add_workspace, f"{number:02}")) for number in range(50)]
    reads = [database.read(names) for _ in range(50)]
    await asyncio.gather(*writes, *reads)
    assert len(await database.read(names)) == 50
    assert backend.under_way(database) == 0


async def test_closing_finishes_what_runs(url: str) -> None:
    database = open_database(url)
    writing = asyncio.create_task(database.write(partial(add_workspace, "w")))
    await asyncio.sleep(0)
    await database.close()
    await writing
    database = open_database(url)
    assert await database.read(names) == ["w"]
    await database.close()


# --- what callers are told ---


def test_a_database_that_is_away_is_unavailable() -> None:
    with pytest.raises(AskdError, match="the database is away") as refused, refusing():
        raise away()
    assert refused.value.code is Code.UNAVAILABLE
    assert refused.value.retry_after


def test_a_fault_of_the_program_stays_what_it_is() -> None:
    error = ZeroDivisionError()
    assert refusal(error) is error


# --- whether a database takes changes ---


async def test_a_probe_changes_nothing(store: Store) -> None:
    before = await store.rows()
    await store.database.write(probe)
    assert await store.rows() == before


async def test_a_probe_by_writing_writes_one_row(store: Store) -> None:
    for now in (1, 2):
        await store.database.write(partial(probe_by_writing, now=now))
    assert await store.read(lambda connection: list(connection.execute(select(probes)))) == [(1, 2)]


# --- databases that cannot be used ---


async def test_a_second_server_is_kept_off(backend: Backend, url: str, database: Database) -> None:
    if not backend.exclusive:
        pytest.skip("several servers share it")
    with pytest.raises(StartError, match="another server holds") as refused:
        open_database(url)
    assert "\n" not in str(refused.value)
    assert await database.read(names) == []  # the first is none the worse for it


async def test_the_next_server_may_have_it(url: str) -> None:
    for _ in range(3):
        await open_database(url).close()


async def test_one_that_may_stand_beside_a_server_writes_to_its_database(url: str, database: Database) -> None:
    beside = open_database(url, beside_server=True)
    await beside.write(partial(add_workspace, "w"))
    await beside.close()
    assert await database.read(names) == ["w"]
    await database.write(partial(add_workspace, "v"))


async def test_one_that_may_stand_beside_a_server_sets_up_a_database_that_has_none(
    backend: Backend, tmp_path: Path
) -> None:
    if not backend.upgrades_on_open:
        pytest.skip("its schema is brought up to date by a command of its own")
    url = backend.create(tmp_path)
    beside = open_database(url, beside_server=True)
    assert await beside.read(names) == []
    await beside.close()
    await open_database(url).close()


@pytest.mark.parametrize("url", ["mysql://somewhere/db", "sqlite://", "sqlite:///:memory:", "nonsense", ""])
def test_a_database_that_is_not_supported_ends_the_start(url: str) -> None:
    with pytest.raises(StartError) as refused:
        open_database(url)
    assert "\n" not in str(refused.value)
