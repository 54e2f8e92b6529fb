"""Behind PgBouncer in transaction mode, where there is one: everything but the listener goes through it."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy import make_url
from tests.conditions import eventually
from tests.postgres.cluster import NOBODY, Cluster, unprivileged
from tests.postgres.pairs import Pair, paired
from tests.questions import text_question

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
#: Fewer connections than one server has.
CONNECTIONS = 3

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed")


@pytest.fixture
def pooled(url: str, cluster: Cluster, tmp_path: Path) -> Iterator[str]:
    """The URL of the database through PgBouncer."""
    folder = cluster.folder / f"pgbouncer-{tmp_path.name}"
    folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={cluster.folder} user=askd\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {CONNECTIONS}\n"
    )
    command = unprivileged(PROGRAM or "", str(folder / "pgbouncer.ini"))
    with (tmp_path / "log").open("ab") as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    through = {"host": str(folder), "port": "6432", "prepared_statement_cache_size": "0"}
    yield make_url(url).update_query_dict(through).render_as_string(hide_password=False)
    process.terminate()
    process.wait(10)


@pytest.fixture
async def pair(url: str, pooled: str, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two servers that share a few connections."""
    socket = Path(make_url(pooled).query["host"]) / ".s.PGSQL.6432"  # type: ignore[arg-type]
    await eventually(socket.exists)
    async with paired(pooled, tmp_path, database={"url": pooled, "listen_url": url}) as servers:
        yield servers


async def test_two_servers_share_a_few_connections(pair: Pair, cluster: Cluster) -> None:
    clients = pair.clients

    async def change(number: int) -> None:
        for _ in range(5):
            ask = await clients[number % 2].ask(text_question("?" * number), workspace_id=f"w{number % 3}")
            await clients[(number + 1) % 2].answer(ask.id, workspace_id=f"w{number % 3}")
            await clients[number % 2].page(workspace_id=f"w{number % 3}")

    async with clients[0].watch(workspace_id="w0") as first, clients[1].watch(workspace_id="w0") as second:
        await first.until_synced()
        await second.until_synced()
        await asyncio.gather(*map(change, range(12)))
        for watcher in (first, second):
            assert [event.revision for event in await watcher.events(40)] == list(range(1, 41))
    (row,) = cluster.execute("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'askd'")
    assert row[0] <= CONNECTIONS


async def test_a_change_reaches_the_other_server_by_its_listener(pair: Pair) -> None:
    a, b = pair.clients
    async with a.watch() as watcher:
        await watcher.until_synced()
        await b.ask()
        await watcher.events(1)
