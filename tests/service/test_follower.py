"""What other servers commit reaches the watchers and waits of this one (DESIGN, third idea)."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.conditions import eventually
from tests.service.services import Service, Watcher
from tests.store.commands import access, answer, create
from tests.store.databases import Store
from tests.store.histories import Workload, dice
from tests.store.stages import away

from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus
from askd.service import follower as module
from askd.service.asks import AskReference
from askd.service.follower import Follower
from askd.store.database import Database, Hint
from askd.store.queries import load_events

W = AskFilter(workspace_id="w")


class Server(Service):
    """A service that follows what others commit to its database."""

    follower: Follower

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.told: list[Hint] = []

    def follows(self, database: Database) -> bool:
        return True

    def _publish(self, events: Sequence[AskEvent]) -> None:
        super()._publish(events)
        self.told += map(hint, events)


def hint(event: AskEvent) -> Hint:
    """What a server tells of a commit."""
    resolved = [] if event.ask.status is AskStatus.PENDING else [event.ask.id]
    return Hint(workspace_id=event.ask.workspace_id, revision=event.revision, resolved=resolved)


@pytest.fixture
async def server(database: Database) -> AsyncIterator[Server]:
    """A server; `store` is another on its database."""
    running = Server(database)
    yield running
    await running.close()


@pytest.fixture
async def other(database: Database) -> AsyncIterator[Server]:
    """One more server."""
    running = Server(database)
    yield running
    await running.close()


def waiting(server: Server, ask: Ask) -> "asyncio.Task[Ask]":
    """A client that waits for an ask's resolution."""
    client = asyncio.create_task(server.asks.wait(access(), AskReference(ask_id=ask.id), None))
    server.clients.append(client)
    return client


@pytest.mark.parametrize("way", ["a hint", "a poll"])
async def test_what_another_server_committed_reaches_watchers_and_waits(server: Server, store: Store, way: str) -> None:
    ask = await store.ask(create())
    watcher, wait = Watcher(server, W), waiting(server, ask)
    await watcher.synced()
    await server.asleep(2)
    applied = await store.apply(answer(ask), create(), create(workspace="v"))
    if way == "a hint":
        for event in applied.events:
            server.follower.hear(hint(event))
    else:
        await server.follower.run_once()
    await watcher.reached(3)
    assert [event.revision for event in watcher.events] == [1, 2, 3]
    assert (await wait).status is AskStatus.ANSWERED


async def test_hints_that_are_lost_late_or_repeated_lose_and_repeat_nothing(server: Server, store: Store) -> None:
    watcher = Watcher(server, W)
    await watcher.synced()
    told: list[AskEvent] = []
    for _ in range(6):
        told += (await store.apply(create(), create())).events
    for number in (7, 3, 3, 0, 11, 11, 5):
        server.follower.hear(hint(told[number]))
    await watcher.reached(12)
    assert [event.revision for event in watcher.events] == list(range(1, 13))


async def test_own_and_others_commits_come_in_their_order(server: Server, store: Store) -> None:
    watcher = Watcher(server, W)
    await watcher.synced()
    for _ in range(5):
        await store.ask(create())
        await server.do(create())  # published before what precedes it is known here
    await watcher.reached(10)
    assert [event.revision for event in watcher.events] == list(range(1, 11))


@pytest.mark.parametrize("seed", range(3))
async def test_watchers_of_two_servers_are_told_the_same(server: Server, other: Server, seed: int) -> None:
    chance, load = dice(seed), Workload(seed)
    watchers = [Watcher(service, query) for service in (server, other) for query in (W, AskFilter(workspace_id="v"))]
    for watcher in watchers:
        await watcher.synced()
    for _ in range(30):
        for service in (server, other):
            await service.try_all(load.batch())
        for told, hearing in ((server.told, other), (other.told, server)):
            for each in told:
                if chance.random() < 0.5:  # else it is lost
                    hearing.follower.hear(each)
            told.clear()
        await read_history(server, load)
    for service in (server, other):
        await service.follower.run_once()
    for watcher in watchers:
        revision = load.history.revision(watcher.query.workspace_id)
        await watcher.reached(revision)
        assert revision > 10
        assert watcher.told_events == watcher.expected(load.history)


async def read_history(server: Server, load: Workload) -> None:
    """What happened, by the database."""
    for workspace in ("w", "v"):
        query, after = AskFilter(workspace_id=workspace), load.history.revision(workspace)
        found = await server.reader.read(lambda connection: load_events(connection, query, after))  # noqa: B023
        load.history.take(found.events)


async def test_a_database_that_is_away_is_asked_again_by_the_next_poll(server: Server, store: Store) -> None:
    ask = await store.ask(create())
    watcher, wait = Watcher(server, W), waiting(server, ask)
    await watcher.synced()
    await server.asleep(2)
    applied = await store.apply(answer(ask))
    server.stage.failure = away()
    for event in applied.events:
        server.follower.hear(hint(event))
    await eventually(lambda: not server.follower._catching_up and not server.follower._settling)
    assert not wait.done()
    server.stage.failure = None
    await server.follower.run_once()
    await watcher.reached(2)
    assert (await wait).status is AskStatus.ANSWERED


async def test_what_nobody_here_watches_costs_nothing(server: Server, store: Store) -> None:
    applied = await store.apply(create(), create(workspace="v"))
    reads = server.stage.reads
    for event in applied.events:
        server.follower.hear(hint(event))
    await server.follower.run_once()
    assert server.stage.reads == reads


async def test_a_poll_is_one_query_for_many_workspaces(server: Server, store: Store) -> None:
    watchers = [Watcher(server, AskFilter(workspace_id=f"{number}")) for number in range(20)]
    for watcher in watchers:
        await watcher.synced()
    reads = server.stage.reads
    await server.follower.run_once()
    assert server.stage.reads == reads + 1
    await store.apply(create(workspace="7"))
    await server.follower.run_once()
    await watchers[7].reached(1)


async def test_a_follower_that_runs_polls_and_goes_on_after_faults(
    server: Server, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PERIOD", 0.001)
    watcher = Watcher(server, W)
    await watcher.synced()
    running = asyncio.create_task(server.follower.run())
    server.clients.append(running)
    for failure in (away(), ZeroDivisionError("a bug")):
        server.stage.failure = failure
        enough = server.stage.reads + 3
        await eventually(lambda: server.stage.reads >= enough)  # noqa: B023
    server.stage.failure = None
    await store.apply(create())
    await watcher.reached(1)


async def test_closing_leaves_no_task(server: Server, store: Store) -> None:
    before = asyncio.all_tasks()
    ask = await store.ask(create())
    watcher, wait = Watcher(server, W), waiting(server, ask)
    await watcher.synced()
    await server.asleep(2)
    applied = await store.apply(answer(ask))
    with server.stage.holding_reads():
        for event in applied.events:
            server.follower.hear(hint(event))
        await server.follower.close()
    wait.cancel()
    await watcher.stop()
    await eventually(lambda: asyncio.all_tasks() == before)
