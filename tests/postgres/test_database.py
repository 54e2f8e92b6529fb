"""Transactions on PostgreSQL: isolation, bounds, and what a failure or a caller that leaves leaves behind."""

import asyncio
from functools import partial

import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, OperationalError
from tests.conditions import eventually
from tests.postgres.cluster import Cluster
from tests.store.commands import create
from tests.store.databases import Store

from askd.store import postgres
from askd.store.database import LockedError, StartError, deadline, open_database
from askd.store.postgres import PostgresDatabase


def say(statement: str, connection: Connection) -> object:
    """The first value that a statement says."""
    return connection.exec_driver_sql(statement).scalar()


def do(statement: str, connection: Connection) -> None:
    connection.exec_driver_sql(statement)


async def set_up(database: PostgresDatabase) -> None:
    """Two rows to fight about."""
    await database.write(partial(do, "INSERT INTO workspaces VALUES ('a', 0), ('b', 0)"))


def in_transactions(cluster: Cluster) -> int:
    (row,) = cluster.execute("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'")
    return int(row[0])


async def test_writes_are_read_committed_and_reads_see_one_snapshot(database: PostgresDatabase) -> None:
    level = partial(say, "SHOW transaction_isolation")
    assert await database.write(level) == "read committed"
    assert await database.read(level) == "repeatable read"


async def test_a_read_may_take_its_time_with_what_it_found_and_a_write_may_not(database: PostgresDatabase) -> None:
    """A page of JSON took longer to convert than the database waited, on a busy machine: watchers got no further."""
    idle = partial(say, "SHOW idle_in_transaction_session_timeout")
    assert await database.read(idle) == "1min"
    assert await database.write(idle) == "5s"


async def test_a_read_writes_nothing(database: PostgresDatabase) -> None:
    with pytest.raises(OperationalError, match="read-only"):
        await database.read(partial(do, "INSERT INTO workspaces VALUES ('w', 0)"))


async def test_a_write_that_fails_leaves_nothing(database: PostgresDatabase) -> None:
    def fail(connection: Connection) -> None:
        do("INSERT INTO workspaces VALUES ('w', 0)", connection)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await database.write(fail)
    assert await database.read(partial(say, "SELECT count(*) FROM workspaces")) == 0


async def test_a_failure_that_a_transaction_ignores_is_no_success(database: PostgresDatabase) -> None:
    def ignore(connection: Connection) -> None:
        with pytest.raises(DBAPIError):
            do("SELECT 1 / 0", connection)

    with pytest.raises(RuntimeError, match="ROLLBACK"):
        await database.write(ignore)


async def test_callers_that_leave_leave_no_transaction_behind(database: PostgresDatabase, cluster: Cluster) -> None:
    await set_up(database)
    work = [
        *(database.write(partial(do, f"UPDATE workspaces SET revision = {n} WHERE id = 'a'")) for n in range(40)),
        *(database.read(partial(say, "SELECT pg_sleep(0.01)")) for _ in range(40)),
    ]
    tasks = [asyncio.ensure_future(waiting) for waiting in work]
    for task in tasks:
        await asyncio.sleep(0.001)
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await eventually(lambda: not database._writes._running and not database._reads._running)
    assert in_transactions(cluster) == 0
    assert await database.write(partial(say, "SELECT count(*) FROM workspaces")) == 2


async def test_closing_finishes_what_runs(url: str, cluster: Cluster) -> None:
    database = open_database(url)
    running = asyncio.create_task(
        database.write(partial(do, "INSERT INTO workspaces SELECT 'w', 0 FROM pg_sleep(0.1)"))
    )
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await database.close()
    await running
    assert cluster.execute("SELECT id FROM workspaces", url=url) == [("w",)]


async def test_two_that_wait_for_each_other_are_both_done(database: PostgresDatabase) -> None:
    await set_up(database)

    def update(first: str, second: str, connection: Connection) -> None:
        do(f"UPDATE workspaces SET revision = revision + 1 WHERE id = '{first}'", connection)
        do("SELECT pg_sleep(0.03)", connection)
        do(f"UPDATE workspaces SET revision = revision + 1 WHERE id = '{second}'", connection)

    await asyncio.gather(database.write(partial(update, "a", "b")), database.write(partial(update, "b", "a")))
    assert await database.read(partial(say, "SELECT sum(revision) FROM workspaces")) == 4


async def test_a_serialization_failure_is_tried_again(database: PostgresDatabase) -> None:
    tries = 0

    def fail_twice(connection: Connection) -> int:
        nonlocal tries
        tries += 1
        if tries < 3:
            do("DO $$ BEGIN RAISE EXCEPTION 'conflict' USING ERRCODE = 'serialization_failure'; END $$", connection)
        return tries

    assert await database.write(fail_twice) == 3


async def test_a_row_that_stays_locked_is_told_soon(database: PostgresDatabase, cluster: Cluster) -> None:
    await set_up(database)
    lock = partial(say, "SELECT revision FROM workspaces WHERE id = 'a' FOR UPDATE")

    def hold(connection: Connection) -> None:
        lock(connection)
        do("SELECT pg_sleep(0.5)", connection)

    holding = asyncio.create_task(database.write(hold))
    await eventually(lambda: cluster.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'PgSleep'") != [])
    with pytest.raises(LockedError):
        await database.write(lock)
    await holding
    assert await database.write(lock) == 0


async def test_a_read_ends_with_its_call(database: PostgresDatabase) -> None:
    loop = asyncio.get_running_loop()
    start = loop.time()
    deadline.set(start + 0.1)
    with pytest.raises(OperationalError, match="statement timeout"):
        await database.read(partial(say, "SELECT pg_sleep(10)"))
    assert loop.time() - start < 2


async def test_callers_beyond_the_pool_wait_for_their_turn(database: PostgresDatabase, cluster: Cluster) -> None:
    reads = [database.read(partial(say, "SELECT 1 FROM pg_sleep(0.01)")) for _ in range(50)]
    assert await asyncio.gather(*reads) == [1] * 50
    (row,) = cluster.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'askd'")
    assert row[0] <= postgres.READS


async def test_a_terminated_connection_costs_nobody_an_error(database: PostgresDatabase, cluster: Cluster) -> None:
    for _ in range(5):
        await asyncio.gather(*(database.read(partial(say, "SELECT 1")) for _ in range(10)))
        cluster.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'askd'")
    assert await database.write(partial(say, "SELECT 1")) == 1


async def test_errors_hold_nothing_that_users_wrote(database: PostgresDatabase) -> None:
    await database.write(partial(do, "INSERT INTO workspaces VALUES ('SECRET', 0)"))
    with pytest.raises(DBAPIError) as raised:
        await database.write(partial(do, "INSERT INTO workspaces VALUES ('SECRET', 0)"))
    assert "SECRET" not in str(raised.value.orig)


async def test_text_that_postgresql_cannot_hold_is_just_not_found(store: Store) -> None:
    ask = await store.ask(create())
    assert await store.get(ask.id) == ask
    assert await store.get(f"{ask.id}\0") is None


async def test_an_id_that_no_database_can_hold_is_nobody_elses_fault(store: Store) -> None:
    with pytest.raises(UnicodeEncodeError):
        await store.apply(create(session="\ud800"))


async def test_a_driver_that_is_not_asyncpg_is_refused() -> None:
    with pytest.raises(StartError, match="asyncpg"):
        open_database("postgresql+psycopg://askd@/askd")


@pytest.mark.parametrize("url", ["", "nonsense", "postgresql://a:b:c@d:e/f"])
async def test_a_url_that_is_none_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StartError) as raised:
        open_database(url)
    assert "b" not in str(raised.value).split()


async def test_a_plain_url_is_taken_for_asyncpg(url: str) -> None:
    database = open_database(url.replace("+asyncpg", ""))
    await database.check()
    await database.close()
