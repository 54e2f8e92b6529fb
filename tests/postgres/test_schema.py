"""The schema and the first key, where several programs come to a database at once."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.postgres.cluster import Cluster
from tests.processes import LISTEN, run

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


@pytest.mark.parametrize(("version", "says"), [("0000", "run `askd db upgrade`"), ("9999", "newer than this program")])
async def test_a_server_that_finds_another_schema_says_so(
    url: str, cluster: Cluster, tmp_path: Path, version: str, says: str
) -> None:
    cluster.execute(f"UPDATE alembic_version SET version_num = '{version}'", url=url)
    try:
        with pytest.raises(StartError, match=says):
            await open_once(url, tmp_path / "data")
    finally:
        cluster.execute(f"UPDATE alembic_version SET version_num = '{HEAD}'", url=url)


async def test_a_start_that_is_refused_is_one_line_and_exit_code_1(empty: str, tmp_path: Path) -> None:
    serve = run("serve", *LISTEN, "--data-dir", str(tmp_path / "data"), "--database", empty)
    assert (serve.returncode, serve.stdout) == (1, "")
    assert serve.stderr == "askd: the database has no schema yet: run `askd db upgrade`\n"


async def test_a_newer_schema_is_left_alone(url: str, cluster: Cluster) -> None:
    cluster.execute("UPDATE alembic_version SET version_num = '9999'", url=url)
    try:
        with pytest.raises(StartError, match="newer than this program"):
            await upgrade(url)
    finally:
        cluster.execute(f"UPDATE alembic_version SET version_num = '{HEAD}'", url=url)


async def test_a_database_that_is_not_there_is_one_line(cluster: Cluster, tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r'^cannot use the database: database "nowhere" does not exist$'):
        await open_once(cluster.url("nowhere"), tmp_path / "data")
    with pytest.raises(StartError, match=r"^cannot use the database: .*No such file"):
        await open_once(f"postgresql://askd@/askd?host={tmp_path}", tmp_path / "data")


async def test_servers_that_start_at_once_make_one_first_key(url: str, cluster: Cluster, tmp_path: Path) -> None:
    folders = [tmp_path / str(number) for number in range(5)]
    await asyncio.gather(*(open_once(url, folder) for folder in folders))
    assert len(cluster.execute("SELECT id FROM keys", url=url)) == 1
    assert sum(map(_has_key, folders)) == 1


async def test_the_command_upgrades_and_says_to_what(empty: str, tmp_path: Path) -> None:
    done = run("db", "upgrade", "--data-dir", str(tmp_path), ASKD_DATABASE_URL=empty)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"the schema is {HEAD}\n", "")


async def test_another_admin_key_is_made_beside_running_servers(url: str, cluster: Cluster, tmp_path: Path) -> None:
    await open_once(url, tmp_path / "data")
    done = run("keys", "bootstrap", "--data-dir", str(tmp_path / "other"), "--database", url)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "other" / "admin.key").exists()
    assert len(cluster.execute("SELECT id FROM keys", url=url)) == 2
