"""`askd db copy`: a store moves between databases as it is."""

from pathlib import Path

import pytest
from tests.postgres.cluster import Cluster
from tests.processes import run
from tests.servers import served
from tests.store.commands import create, text_question
from tests.store.databases import Store, all_rows
from tests.store.histories import Workload

from askd.domain.questions import TextPart, TextQuestion
from askd.service.keys import insert_first_key
from askd.store import copying
from askd.store.copying import copy_store
from askd.store.database import StartError, open_database

Rows = dict[str, list[tuple[object, ...]]]


def ignore(_: str, __: int) -> None:
    """Take no notice of how a copy goes on."""


async def fill(url: str, folder: Path) -> Rows:
    """Store some of everything. Returns what is stored."""
    database = open_database(url)
    store = Store(database=database)
    await database.write(lambda connection: insert_first_key(connection, folder / "admin.key", store.now))
    await Workload(seed=7).run(store, 30)
    odd = TextQuestion(prompt=(TextPart(text="\0 ☃ \ud7ff\U0010ffff"),), title="é̀\u2028")
    await store.ask(create(odd, text_question(""), turn="тур/%2F", session="会话", request_id="\0\x01é"))
    rows = await store.rows()
    await database.close()
    return rows


async def stored(url: str) -> Rows:
    database = open_database(url)
    rows = await database.read(all_rows)
    await database.close()
    return rows


def sqlite(folder: Path, name: str = "askd.db") -> str:
    return f"sqlite+aiosqlite:///{folder / name}"


@pytest.mark.parametrize("chunk", [3, 500])
async def test_a_store_that_moves_to_postgresql_and_back_is_the_same(
    url: str, tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "CHUNK", chunk)
    rows = await fill(sqlite(tmp_path), tmp_path)
    assert all(rows[table.name] for table in copying.TABLES)
    await copy_store(sqlite(tmp_path), url, ignore)
    assert await stored(url) == rows
    await copy_store(url, sqlite(tmp_path, "back.db"), ignore)
    assert await stored(sqlite(tmp_path, "back.db")) == rows


async def test_a_store_moves_between_databases_of_one_kind(url: str, cluster: Cluster, tmp_path: Path) -> None:
    rows = await fill(url, tmp_path)
    other = cluster.create()  # has no tables yet: the copy makes them
    await copy_store(url, other, ignore)
    assert await stored(other) == rows
    cluster.drop(other)


async def test_a_target_that_has_anything_is_refused_and_left_alone(url: str, tmp_path: Path) -> None:
    rows = await fill(url, tmp_path)
    await fill(sqlite(tmp_path), tmp_path)
    with pytest.raises(StartError, match="the target is not empty"):
        await copy_store(sqlite(tmp_path), url, ignore)
    assert await stored(url) == rows


async def test_a_store_is_not_copied_onto_itself(url: str) -> None:
    with pytest.raises(StartError, match="the same"):
        await copy_store(url, url, ignore)


async def test_a_file_that_a_server_holds_is_refused(url: str, tmp_path: Path) -> None:
    held = open_database(sqlite(tmp_path))
    with pytest.raises(StartError, match="another server holds"):
        await copy_store(sqlite(tmp_path), url, ignore)
    await held.close()


async def test_a_copy_that_fails_leaves_nothing(
    url: str, tmp_path: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(sqlite(tmp_path), tmp_path)
    empty = await stored(url)
    cluster.execute("ALTER TABLE workspaces ADD CONSTRAINT refuse CHECK (revision < 0) NOT VALID", url=url)
    try:
        with pytest.raises(StartError, match="the copy failed"):
            await copy_store(sqlite(tmp_path), url, ignore)
    finally:
        cluster.execute("ALTER TABLE workspaces DROP CONSTRAINT refuse", url=url)
    assert await stored(url) == empty


async def test_a_server_goes_on_with_what_the_command_copied(url: str, tmp_path: Path) -> None:
    async with served(tmp_path / "data") as before:
        asks = [await before.admin.ask(request_id=f"{number}") for number in range(3)]
        await before.admin.answer(asks[0].id)
    done = run("db", "copy", "--from", sqlite(tmp_path / "data"), "--to", url)
    assert (done.returncode, done.stderr) == (0, "")
    assert "asks: 3\n" in done.stdout
    async with served(tmp_path / "data", database={"url": url}) as after:
        assert await after.admin.ask(request_id="1") == asks[1]
        async with after.admin.watch(after_revision=0) as watcher:
            events = await watcher.until_synced()
            assert [event.revision for event in events] == [1, 2, 3, 4]
            assert (await after.admin.ask()).created_revision == 5
    refused = run("db", "copy", "--from", sqlite(tmp_path / "data"), "--to", url)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1
