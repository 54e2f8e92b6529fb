"""What goes wrong with a database costs time, and nothing that was acknowledged (issue 7)."""

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clients import ANSWERED, Client, refusal, span
from tests.conditions import eventually
from tests.postgres.cluster import Cluster
from tests.postgres.pairs import Pair, paired
from tests.questions import text

from askd.store import lanes, postgres

LISTENERS = "FROM pg_stat_activity WHERE application_name = 'askd listener'"


async def serving(client: Client) -> bool:
    return await client.health() == "SERVING"


async def unavailable(call: Any) -> None:
    refused = await refusal(call)
    assert refused.reason == "unavailable"
    assert refused.retry_after


# --- the database is away ---


@pytest.fixture
def stopped(cluster: Cluster) -> Iterator[Callable[[], None]]:
    """A function that ends the database server; it runs again after the test."""
    yield cluster.crash
    if not cluster.accepts():
        cluster.start()


async def test_a_restarted_database_is_used_again_at_once(
    pair: Pair, cluster: Cluster, stopped: Callable[[], None]
) -> None:
    a, b = pair.clients
    ask = await a.ask()
    stopped()
    cluster.start()
    assert (await b.answer(ask.id)).status == ANSWERED
    assert (await a.get(ask.id)).status == ANSWERED


async def test_while_connections_are_refused_all_is_unavailable_and_then_goes_on(
    pair: Pair, cluster: Cluster, stopped: Callable[[], None]
) -> None:
    a, b = pair.clients
    async with a.watch() as watcher:
        await watcher.until_synced()
        ask = await b.ask()
        await watcher.events(1)
        stopped()
        for client in (a, b):
            await unavailable(client.answer(ask.id))
            await unavailable(client.get(ask.id))
            await unavailable(client.ask())
            await eventually(lambda client=client: _is(client, "NOT_SERVING"))  # type: ignore[misc]
        cluster.start()
        for client in (a, b):
            await eventually(lambda client=client: serving(client))  # type: ignore[misc]
        await b.answer(ask.id)
        (event,) = await watcher.events(1)
        assert event.revision == 2
    assert len(await a.list_all()) == 1


async def _is(client: Client, health: str) -> bool:
    return await client.health() == health


# --- commits of which the answer is lost ---


class Losses:
    """Has the connections of the next commits that change something die, after the commit or before it."""

    def __init__(self) -> None:
        self.left = 0
        self.after = True

    async def commit(self, driver: Any) -> None:
        """Stands for the store's own."""
        wrote = await driver.fetchval("SELECT pg_current_xact_id_if_assigned() IS NOT NULL")
        loses = wrote and self.left > 0
        if not loses or self.after:
            await driver.execute("COMMIT")
        if loses:
            self.left -= 1
            driver.terminate()
            raise ConnectionResetError


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> Losses:
    made = Losses()
    monkeypatch.setattr(postgres, "_commit", made.commit)
    return made


@pytest.mark.parametrize("after", [True, False], ids=["after the commit", "before the commit"])
async def test_a_change_whose_commit_was_not_answered_is_made_once(pair: Pair, losses: Losses, *, after: bool) -> None:
    a, b = pair.clients
    async with a.watch() as first, b.watch() as second:
        await first.until_synced()
        await second.until_synced()
        losses.after = after
        losses.left = 1
        ask = await a.ask(turn_id="t")
        assert losses.left == 0
        losses.left = 1
        await b.answer(ask.id, text("yes"))
        assert losses.left == 0
        for watcher in (first, second):
            events = await watcher.events(2)
            assert [event.revision for event in events] == [1, 2]
    assert [ask.status for ask in await a.list_all()] == [ANSWERED]


async def test_a_change_that_nobody_could_be_told_of_is_found_by_a_retry_and_by_watchers(
    pair: Pair, losses: Losses
) -> None:
    a, b = pair.clients
    async with a.watch() as first, b.watch() as second:
        await first.until_synced()
        await second.until_synced()
        losses.left = 2  # the batch, and looking whether it was committed
        await unavailable(a.ask(request_id="r"))
        for watcher in (first, second):
            (event,) = await watcher.events(1)
            assert event.revision == 1
        assert (await b.ask(request_id="r")).id == event.ask.id


# --- the listener ---


async def test_a_listener_that_is_terminated_again_and_again_loses_nothing(pair: Pair, cluster: Cluster) -> None:
    a, b = pair.clients
    count = f"SELECT count(*) {LISTENERS}"
    async with a.watch() as first, b.watch() as second:
        await first.until_synced()
        await second.until_synced()
        for number in range(30):
            if number % 5 == 0:
                cluster.execute(f"SELECT pg_terminate_backend(pid) {LISTENERS}")
            await (a, b)[number % 2].ask()
        for watcher in (first, second):
            assert [event.revision for event in await watcher.events(30)] == list(range(1, 31))
    await eventually(lambda: cluster.execute(count) == [(2,)])


async def test_without_any_hint_a_poll_brings_what_others_did(url: str, tmp_path: Path) -> None:
    nowhere = f"postgresql://askd@/askd?host={tmp_path}"
    async with paired(url, tmp_path, database={"url": url, "listen_url": nowhere}) as pair:
        a, b = pair.clients
        ask = await b.ask()
        async with a.watch() as watcher:
            await watcher.until_synced()
            wait = asyncio.create_task(a.wait(ask.id))
            await eventually(lambda: pair.a.server.hub.is_waited(ask.id))
            await b.answer(ask.id)
            await watcher.events(1)
            assert (await wait).status == ANSWERED


async def test_what_others_say_on_the_channel_harms_nobody(pair: Pair, cluster: Cluster) -> None:
    a, b = pair.clients
    async with a.watch() as watcher:
        await watcher.until_synced()
        for payload in (
            "",
            "nonsense",
            "[1]",
            "{}",
            '["w", "x", []]',
            '["w", 5, 7]',
            "[null, null, null]",
            "[[], 1, []]",
        ):
            cluster.execute(f"SELECT pg_notify('askd', '{payload}')", url=pair.url)
        await b.ask()
        await watcher.events(1)


async def test_a_hint_of_what_is_not_there_brings_nothing_and_breaks_nothing(pair: Pair, cluster: Cluster) -> None:
    a, b = pair.clients
    async with a.watch() as watcher:
        await watcher.until_synced()
        cluster.execute("""SELECT pg_notify('askd', '["w", 5, ["que_x"]]')""", url=pair.url)
        asks = [await b.ask() for _ in range(7)]
        events = await watcher.events(7)
        assert [event.ask.id for event in events] == [ask.id for ask in asks]


# --- locks held from outside ---


async def test_a_workspace_that_is_locked_from_outside_stops_no_other(
    pair: Pair, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 1.0)
    a, b = pair.clients
    ask = await a.ask(workspace_id="locked")
    with cluster.holding("SELECT 1 FROM workspaces WHERE id = 'locked' FOR UPDATE", pair.url):
        blocked = [asyncio.create_task(client.answer(ask.id, workspace_id="locked")) for client in (a, b)]
        await asyncio.sleep(0)
        for number in range(16):
            start = time.monotonic()
            await asyncio.gather(*(client.ask(workspace_id=f"w{number}") for client in (a, b)))
            assert time.monotonic() - start < 1
        for task in blocked:
            await unavailable(task)
        assert (await a.get(ask.id, workspace_id="locked")).id == ask.id
        late = asyncio.create_task(a.answer(ask.id, workspace_id="locked"))
        await eventually(lambda: len(pair.a.server.writer._aside) == 1)
    assert (await late).status == ANSWERED
    assert (await b.answer(ask.id, workspace_id="locked")).status == ANSWERED


async def test_a_batch_of_many_workspaces_goes_on_without_those_that_are_locked(pair: Pair, cluster: Cluster) -> None:
    a, _ = pair.clients
    for number in range(20):
        await a.ask(workspace_id=f"w{number}")
    with cluster.holding("SELECT 1 FROM workspaces WHERE id IN ('w3', 'w4', 'w5') FOR UPDATE", pair.url):
        calls = [asyncio.create_task(a.ask(workspace_id=f"w{number}")) for number in range(20) for _ in range(3)]
        await eventually(lambda: sum(call.done() for call in calls) == 17 * 3, within=lanes.PATIENCE)
    results = await asyncio.gather(*calls)
    assert sorted(result.created_revision for result in results) == sorted([2, 3, 4] * 20)


async def test_asks_of_other_workspaces_expire_while_one_is_locked(pair: Pair, cluster: Cluster) -> None:
    a, _ = pair.clients
    await a.ask(workspace_id="locked", expires_in=span(1))
    with cluster.holding("SELECT 1 FROM workspaces WHERE id = 'locked' FOR UPDATE", pair.url):
        async with a.watch() as watcher:
            await watcher.until_synced()
            for _ in range(2):
                start = time.monotonic()
                await a.ask(expires_in=span(1))
                await watcher.events(2)
                assert time.monotonic() - start < 1 + 2
    async with a.watch(workspace_id="locked", after_revision=1) as watcher:
        await watcher.events(1)


async def test_more_commands_than_may_wait_for_a_locked_workspace_are_refused_and_stop_no_other(
    pair: Pair, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 1.0)
    monkeypatch.setattr(lanes, "ASIDE", 3)
    a, _ = pair.clients
    await a.ask(workspace_id="locked")
    with cluster.holding("SELECT 1 FROM workspaces WHERE id = 'locked' FOR UPDATE", pair.url):
        calls = [asyncio.create_task(a.ask(workspace_id="locked")) for _ in range(20)]
        await a.ask(workspace_id="w")
        results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, Exception) for result in results)
    assert len(await a.list_all(workspace_id="locked")) == 1


async def test_a_server_that_drains_waits_for_a_locked_workspace_no_longer_than_its_commands(
    pair: Pair, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 1.0)
    ask = await pair.a.admin.ask()
    with cluster.holding("SELECT 1 FROM workspaces WHERE id = 'w' FOR UPDATE", pair.url):
        blocked = asyncio.create_task(pair.a.admin.answer(ask.id))
        await eventually(lambda: len(pair.a.server.writer._aside) == 1)
        start = time.monotonic()
        await pair.a.drain()
        assert time.monotonic() - start < 5
        await unavailable(blocked)
