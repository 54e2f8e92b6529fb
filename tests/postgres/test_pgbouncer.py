"""Behind PgBouncer in transaction mode everything works but the listener, which has a URL of its own."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.clients import ANSWERED, CANCELLED, connected, grant, refusal, span
from tests.lifecycle.times import end_session, end_turn, outcome_name
from tests.postgres import pgbouncer
from tests.postgres.cluster import Cluster
from tests.postgres.pairs import Pair, paired
from tests.processes import ServerProcess, run, serving
from tests.questions import text, text_question

from askd.store.migrations import HEAD
from askd.v1 import ask_pb2

TO_SQLITE = "sqlite+aiosqlite:///{}"


@pytest.fixture
def front(cluster: Cluster) -> Iterator[Path]:
    """The folder of a PgBouncer's socket. Where PgBouncer could be installed its tests must not be left out."""
    if pgbouncer.PROGRAM is None:
        if os.environ.get("CI") == "true" and "WITHOUT_PGBOUNCER" not in os.environ:
            pytest.fail("PgBouncer is not installed: .ci/run does that, or says why it cannot")
        pytest.skip("NOT TESTED: what goes through PgBouncer, which is not installed (Debian: apt install pgbouncer)")
    with pgbouncer.pgbouncer(cluster) as folder:
        yield folder


@pytest.fixture
async def pair(url: str, front: Path, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two servers that share a few connections."""
    pooled = pgbouncer.through(front, url)
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
    assert row[0] <= pgbouncer.CONNECTIONS


async def test_a_change_reaches_the_other_server_by_its_listener(pair: Pair) -> None:
    a, b = pair.clients
    async with a.watch() as watcher:
        await watcher.until_synced()
        await b.ask()
        await watcher.events(1)


async def test_answers_waits_retries_and_ends_are_as_without_it(pair: Pair) -> None:
    a, b = pair.clients
    ask = await a.ask(request_id="r")
    waiting = asyncio.create_task(a.wait(ask.id))
    receipt = await b.answer(ask.id, text("yes"))
    assert (await waiting).status == ANSWERED
    assert await a.answer(ask.id, text("yes")) == receipt
    assert (await b.ask(request_id="r")).id == ask.id
    assert (await refusal(b.reject(ask.id))).reason == "ask_already_resolved"
    left = await a.ask(turn_id="t", session_id="s")
    assert outcome_name(await end_turn(b, "COMPLETED")) == "FAILED"
    expiring = await a.ask(session_id="other", expires_in=span(1))
    await end_session(b)
    assert (await a.wait(expiring.id)).cancel_reason == ask_pb2.CANCEL_REASON_EXPIRED
    assert [found.status for found in await b.list_all()] == [ANSWERED, CANCELLED, CANCELLED]
    async with b.watch(after_revision=3) as watcher:
        events = await watcher.until_synced()
    assert [(event.revision, event.ask.id) for event in events if event.ask.id == left.id] == [(4, left.id)]


async def test_keys_and_grants_are_as_without_it(pair: Pair) -> None:
    a, b = pair.clients
    made = await a.create_key(grant("viewer"))
    other = b.other(made.secret)
    async with other.watch() as watcher:
        await watcher.until_synced()
        await a.revoke_key(made.key.id)
        assert (await watcher.end()).reason == "unauthenticated"
    assert len(await b.list_keys()) == 2


def _settings(front: Path, url: str) -> dict[str, str]:
    return {"ASKD_DATABASE_URL": pgbouncer.through(front, url), "ASKD_DATABASE_LISTEN_URL": url}


async def test_a_store_is_made_served_and_moved_through_it(front: Path, cluster: Cluster, tmp_path: Path) -> None:
    url, back = cluster.create(), TO_SQLITE.format(tmp_path / "back" / "askd.db")
    settings = _settings(front, url)
    upgraded = run("db", "upgrade", **settings)
    assert (upgraded.returncode, upgraded.stdout) == (0, f"the schema is {HEAD}\n"), upgraded.stderr
    with ExitStack() as stack:
        servers = [stack.enter_context(serving(tmp_path / name, **settings)) for name in "ab"]
        credential = servers[0].credential
        for server in servers:
            async with connected(server.address, credential) as admin:
                await admin.ask(request_id=server.data_dir.name)
        asks = await _list(servers[1], credential)
        servers[0].kill()
        assert servers[1].terminate() == 0
    (tmp_path / "back").mkdir()
    assert run("db", "copy", "--from", settings["ASKD_DATABASE_URL"], "--to", back).returncode == 0
    with serving(tmp_path / "back") as server:
        assert await _list(server, credential) == asks
        assert server.terminate() == 0
    other = cluster.create()
    copied = run("db", "copy", "--from", back, "--to", pgbouncer.through(front, other))
    assert copied.returncode == 0, copied.stderr
    with serving(tmp_path / "c", **_settings(front, other)) as server:
        assert await _list(server, credential) == asks
    cluster.drop(other)
    cluster.drop(url)


async def _list(server: ServerProcess, credential: str) -> list[ask_pb2.AskState]:
    async with connected(server.address, credential) as admin:
        return await admin.list_all()
