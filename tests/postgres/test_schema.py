"""The schema and the first key, where several programs come to a database at once."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.clients import connected
from tests.postgres.cluster import Cluster, shared
from tests.processes import LISTEN, ServerProcess, end, run, serving, start

from askd.config import load
from askd.server.app import open_store
from askd.store.database import StartError, open_database
from askd.store.migrations import HEAD


@pytest.fixture
def empty(cluster: Cluster) -> Iterator[str]:
    """The URL of a database without tables."""
    url = cluster.create()
    yield url
    cluster.drop(url)


async def open_once(url: str, data_dir: Path) -> None:
    """Open the store as a server does, and let it go."""
    settings = load({"data_dir": data_dir, "database": {"url": url}}, {})
    await (await open_store(settings)).close()


def _has_key(folder: Path) -> bool:
    return (folder / "admin.key").exists()


async def upgrade(url: str) -> None:
    database = open_database(url)
    try:
        await database.upgrade()
    finally:
        await database.close()


async def test_a_server_does_not_set_up_a_database_by_itself(empty: str, tmp_path: Path, cluster: Cluster) -> None:
    with pytest.raises(StartError, match=r"has no schema yet: run `askd db upgrade`"):
        await open_once(empty, tmp_path / "data")
    assert cluster.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'", url=empty) == []


async def test_several_upgrades_at_once_are_one(empty: str, cluster: Cluster) -> None:
    await asyncio.gather(*(upgrade(empty) for _ in range(5)))
    assert cluster.execute("SELECT version_num FROM alembic_version", url=empty) == [(HEAD,)]
    await upgrade(empty)


@contextmanager
def schema(version: str, url: str) -> Iterator[None]:
    """Have a database say that its schema is another."""
    shared().execute(f"UPDATE alembic_version SET version_num = '{version}'", url=url)
    try:
        yield
    finally:
        shared().execute(f"UPDATE alembic_version SET version_num = '{HEAD}'", url=url)


def check_refused(url: str, tmp_path: Path, line: str) -> None:
    serve = run("serve", *LISTEN, "--data-dir", str(tmp_path / "data"), "--database", url)
    assert (serve.returncode, serve.stdout, serve.stderr) == (1, "", f"askd: {line}\n")
    assert not _has_key(tmp_path / "data")


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("0000", f"the database has the schema 0000, this program needs {HEAD}: run `askd db upgrade`"),
        ("9999", f"the database is newer than this program (schema 9999, known up to {HEAD})"),
    ],
)
def test_a_server_that_finds_another_schema_says_so_in_one_line_and_exits_with_1(
    url: str, tmp_path: Path, version: str, says: str
) -> None:
    with schema(version, url):
        check_refused(url, tmp_path, says)


def test_a_server_that_finds_no_schema_says_so_in_one_line_and_exits_with_1(empty: str, tmp_path: Path) -> None:
    check_refused(empty, tmp_path, "the database has no schema yet: run `askd db upgrade`")


async def test_a_newer_schema_is_left_alone(url: str) -> None:
    with schema("9999", url), pytest.raises(StartError, match="newer than this program"):
        await upgrade(url)


async def test_a_running_server_survives_an_upgrade_that_only_adds(url: str, cluster: Cluster, tmp_path: Path) -> None:
    """The README says so of releases whose upgrade adds tables, indexes, and columns with a default."""
    with serving(tmp_path / "data", ASKD_DATABASE_URL=url) as server:
        async with connected(server.address, server.credential) as admin, admin.watch() as watcher:
            await watcher.until_synced()
            first = await admin.ask()
            try:
                with schema("9999", url):
                    cluster.execute(
                        "ALTER TABLE asks ADD COLUMN later text NOT NULL DEFAULT ''",
                        "CREATE TABLE later (id integer PRIMARY KEY)",
                        "CREATE INDEX asks_later ON asks (later)",
                        url=url,
                    )
                    await admin.answer(first.id)
                    assert (await admin.ask()).created_revision == 3
                    assert len(await admin.list_all()) == 2
                    await watcher.events(3)
                    assert await admin.health() == "SERVING"
            finally:
                cluster.execute("ALTER TABLE asks DROP COLUMN later", "DROP TABLE later", url=url)


async def test_a_database_that_is_not_there_is_one_line(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r'^cannot use the database: database "nowhere" does not exist$'):
        await open_once(cluster.url("nowhere"), tmp_path / "data")
    with pytest.raises(StartError, match=r"^cannot use the database: .*No such file"):
        await open_once(f"postgresql://askd@/askd?host={tmp_path}", tmp_path / "data")


@pytest.mark.parametrize("command", ["serve", "db upgrade"])
def test_an_option_of_the_url_that_the_driver_does_not_have_is_one_line(url: str, tmp_path: Path, command: str) -> None:
    done = run(*command.split(), "--data-dir", str(tmp_path / "data"), "--database", f"{url}&sslrootcert=x")
    assert (done.returncode, done.stderr) == (1, "askd: the database's URL: asyncpg has no option 'sslrootcert'\n")


async def test_what_the_driver_adds_to_an_error_leaves_it_one_line(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # where it looks for certificates
    over_tcp = f"{url.partition('?')[0].replace('@/', '@127.0.0.1:1/')}?ssl=verify-full"
    with pytest.raises(StartError, match=r"^cannot use the database: root certificate file [^\n]*$"):
        await open_once(over_tcp, tmp_path / "data")


async def test_servers_that_start_at_once_make_one_first_key(url: str, cluster: Cluster, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    await asyncio.gather(*(open_once(url, folder) for folder in folders))
    assert len(cluster.execute("SELECT id FROM keys", url=url)) == 1
    assert sum(map(_has_key, folders)) == 1


async def test_two_processes_that_start_at_once_serve_and_make_one_first_key(
    url: str, cluster: Cluster, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in "ab"]
    starts = [asyncio.to_thread(start, folder, ASKD_DATABASE_URL=url) for folder in folders]
    begun = await asyncio.gather(*starts, return_exceptions=True)
    servers = [server for server in begun if isinstance(server, ServerProcess)]
    try:
        assert len(servers) == 2, begun
        (made,) = filter(_has_key, folders)
        credential = (made / "admin.key").read_text().strip()
        for server in servers:
            async with connected(server.address, credential) as admin:
                assert len(await admin.list_keys()) == 1
                await admin.ask()
    finally:
        for server in servers:
            end(server.process)
    assert cluster.execute("SELECT revision FROM workspaces", url=url) == [(2,)]


async def test_the_command_upgrades_and_says_to_what(empty: str, tmp_path: Path) -> None:
    done = run("db", "upgrade", "--data-dir", str(tmp_path), ASKD_DATABASE_URL=empty)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"the schema is {HEAD}\n", "")


async def test_another_admin_key_is_made_beside_running_servers(url: str, cluster: Cluster, tmp_path: Path) -> None:
    await open_once(url, tmp_path / "data")
    done = run("keys", "bootstrap", "--data-dir", str(tmp_path / "other"), "--database", url)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "other" / "admin.key").exists()
    assert len(cluster.execute("SELECT id FROM keys", url=url)) == 2
