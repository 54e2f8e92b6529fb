"""A database that is locked by somebody or has no room: unavailable, said by health, and over when it is over."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
from tests.clients import ANSWERED, Client, connected, refusal, refusal_of
from tests.conditions import eventually
from tests.processes import ServerProcess, serving
from tests.questions import text_question

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
#: Seconds within which health follows the database.
SOON = 15.0
#: Seconds that a refusal may take: one after another waits for a lock that does not come.
PATIENT = 30.0


async def check_away(admin: Client, *others: Awaitable[object]) -> None:
    """Every change is refused with when to retry, and nothing of it says why."""
    admin.limit = PATIENT
    calls = [admin.ask(request_id="during"), admin.create_key(), *others]
    for refused in await asyncio.gather(*map(refusal, calls)):
        assert (refused.status, refused.reason) == (UNAVAILABLE, "unavailable")
        assert refused.retry_after is not None
        assert 0 < refused.retry_after <= 60
    await eventually(lambda: _health_is(admin, "NOT_SERVING"), within=SOON)


async def _health_is(client: Client, status: str) -> bool:
    return await client.health() == status == await client.health("askd.v1.AskService")


async def check_back(admin: Client) -> None:
    """Health says so, and what was refused can be done again with the same id."""
    await eventually(lambda: _health_is(admin, "SERVING"), within=SOON)
    first = await admin.ask(request_id="during")
    assert (await admin.ask(request_id="during")).id == first.id
    asks = await admin.list_all()
    assert [ask.id for ask in asks].count(first.id) == 1
    async with admin.watch(after_revision=0) as watcher:
        revisions = [event.revision for event in await watcher.until_synced()]
    assert revisions == list(range(1, len(revisions) + 1))


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """The database as another process has it while it holds its lock. This process is another one than the server."""
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")
    finally:
        connection.close()


async def test_while_another_process_locks_the_database_askd_is_unavailable(
    process: ServerProcess, process_admin: Client
) -> None:
    ask = await process_admin.ask(request_id="before")
    async with process_admin.watch() as watcher:
        await watcher.until_synced()
        wait = asyncio.create_task(process_admin.wait(ask.id, 60, deadline=None))
        with locked(process.data_dir / "askd.db"):
            await check_away(process_admin, process_admin.answer(ask.id))
            assert await process_admin.get(ask.id) == ask, "reading goes on"
        await check_back(process_admin)
        assert (await process_admin.answer(ask.id)).status == ANSWERED
        assert (await wait).status == ANSWERED
        assert [event.revision for event in await watcher.events(2)] == [2, 3]
    logged = process.logged()
    assert "not serving" in logged
    assert "INSERT" not in logged
    assert process.credential[31:] not in logged


async def fill(admin: Client) -> list[str]:
    """Ask until there is no room, first for much and then for little. Returns what was acknowledged."""
    stored: list[str] = []

    async def ask(size: int) -> None:
        stored.append((await admin.ask(text_question("x" * size))).id)

    for change in (lambda: ask(50_000), lambda: ask(1), admin.create_key):
        assert await _until_refused(change) is UNAVAILABLE
    return stored


async def _until_refused(change: Callable[[], Awaitable[object]]) -> grpc.StatusCode:
    for _ in range(1000):
        try:
            await change()
        except grpc.aio.AioRpcError as error:
            return refusal_of(error).status
    raise AssertionError("there is always room")


async def check_full(admin: Client, stored: list[str]) -> None:
    await check_away(admin)
    asks = await admin.list_all()
    assert [ask.id for ask in asks] == stored, "reading goes on, and what was acknowledged is there"


async def test_with_files_that_cannot_grow_askd_is_unavailable_until_they_can(
    process: ServerProcess, process_admin: Client
) -> None:
    wal = process.data_dir / "askd.db-wal"
    process.limit_files_to(wal.stat().st_size + 300_000)
    stored = await fill(process_admin)
    assert stored
    await check_full(process_admin, stored)
    process.unlimit_files()
    await check_back(process_admin)
    process.kill()
    with serving(process.data_dir) as again:
        async with connected(again.address, again.credential) as admin:
            assert [ask.id for ask in await admin.list_all()][: len(stored)] == stored


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system of its own, of 2 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(["mount", *options], capture_output=True, check=False).returncode != 0:
        pytest.skip("only root can mount; the test before this one needs no root")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


async def test_on_a_full_disk_askd_is_unavailable_until_there_is_room(small_disk: Path) -> None:
    filler = small_disk / "filler"
    filler.write_bytes(b"x" * 900_000)
    with serving(small_disk / "data") as server:
        async with connected(server.address, server.credential) as admin:
            stored = await fill(admin)
            assert shutil.disk_usage(small_disk).free < 100_000
            await check_full(admin, stored)
            filler.unlink()
            await check_back(admin)
        assert server.terminate() == 0


async def test_a_server_that_drains_while_the_database_is_away_still_ends(
    process: ServerProcess, process_admin: Client
) -> None:
    with locked(process.data_dir / "askd.db"):
        calls = [asyncio.create_task(_code(process_admin, number)) for number in range(20)]
        await eventually(lambda: _health_is(process_admin, "NOT_SERVING"), within=SOON)
        assert await asyncio.to_thread(process.terminate) == 0
        assert set(await asyncio.gather(*calls)) == {UNAVAILABLE}


async def _code(client: Client, number: int) -> grpc.StatusCode:
    try:
        await client.ask(request_id=str(number))
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
