"""Watching: the pending set, then every event once and in order, for whoever reads how slowly ever (CONTRACT 5)."""

import asyncio
import gc
from contextlib import aclosing
from dataclasses import replace

import pytest
from tests.conditions import eventually
from tests.service.services import Service, Watcher, encode
from tests.store.backends import ONE_DATABASE
from tests.store.commands import access, answer, create, text_question, withdraw
from tests.store.databases import Store
from tests.store.histories import Workload, dice, places, subsets
from tests.store.stages import away

from askd.domain.asks import AskFilter, AskStatus
from askd.domain.errors import AskdError, Code, unavailable
from askd.domain.principals import Caller, Grant, Role
from askd.service import asks as watching
from askd.service import hub
from askd.service.hub import Recorded

seeds = pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 10))])
W = AskFilter(workspace_id="w")


@pytest.fixture(params=[None, 2000, 1], ids=["a large ring", "a small ring", "a ring of one event"])
def ring(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """How much of the past the hub keeps."""
    if request.param is not None:
        monkeypatch.setattr(hub, "RING_BYTES", request.param)


def filters(seed: int) -> list[AskFilter]:
    """Some of the ways to filter."""
    chance = dice(seed)
    return [replace(place, statuses=chance.choice(subsets())) for place in places()] + [W, W, W]


def workload(service: Service, seed: int) -> Workload:
    """Commands that follow from what the service did."""
    made = Workload(seed)
    made.history = service.history
    return made


# --- what watchers are told ---


@seeds
async def test_watchers_that_join_at_random_each_end_with_exactly_the_pending_set(
    service: Service, ring: None, seed: int
) -> None:
    """And each is told every event after its snapshot once and in order."""
    load, chance = workload(service, seed), dice(seed)
    waiting = [Watcher(service, query) for query in filters(seed)[:3]]
    to_join = filters(seed)[3:]
    while to_join or service.history.revision() < 120:
        await service.try_all(load.batch())
        if to_join and chance.random() < 0.3:
            waiting.append(Watcher(service, to_join.pop()))
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
    await service.do(create())  # for everybody is told of one in the end
    for watcher in waiting:
        await caught_up(service, watcher)
        assert watcher.told_events == watcher.expected(service.history)
        if not watcher.query.statuses:
            assert pending_set(watcher) == {ask.id.encode() for ask in service.history.pending(watcher.query)}


async def caught_up(service: Service, watcher: Watcher) -> None:
    """Wait until a watcher was told everything that its filter keeps."""
    await watcher.synced()
    await eventually(lambda: len(watcher.told_events) >= len(watcher.expected(service.history)))


def pending_set(watcher: Watcher) -> set[bytes]:
    """What a client of the watcher holds to be pending: the ids, as events give them."""
    pending: dict[bytes, bool] = {}
    for event in watcher.events:
        pending[_id(event)] = event.status is AskStatus.PENDING
    return {ask_id for ask_id, is_pending in pending.items() if is_pending}


def _id(event: Recorded) -> bytes:
    return event.encoded.split(b"id='", 1)[1].split(b"'", 1)[0]


@seeds
async def test_a_watch_resumes_from_any_revision(service: Service, ring: None, seed: int) -> None:
    load = workload(service, seed)
    while service.history.revision() < 25:
        await service.try_all(load.batch())
    newest = service.history.revision()
    with service.hub.join("w"):  # somebody watches throughout
        watchers = [Watcher(service, W, after) for after in range(newest + 1)]
        await asyncio.gather(*(watcher.synced() for watcher in watchers))
        assert {watcher.synced_at for watcher in watchers} == {newest}
        for _ in range(4):
            await service.try_all(load.batch())
        await service.do(create())
        for watcher in watchers:
            await watcher.reached(service.history.revision())
            assert watcher.told_events == watcher.expected(service.history)
            await watcher.stop()


@seeds
async def test_a_client_that_reconnects_all_the_time_misses_nothing(service: Service, ring: None, seed: int) -> None:
    load, chance = workload(service, seed), dice(seed)
    query = chance.choice(places()[:4])
    told: list[bytes] = []
    revision = 0
    while service.history.revision() < 100:
        watcher = Watcher(service, query, revision)
        await service.try_all(load.batch())
        for _ in range(chance.randrange(12)):
            await asyncio.sleep(0)
        await watcher.stop()
        told += watcher.told_events
        revision = max(revision, watcher.revision)
    last = Watcher(service, query, revision)
    await last.synced()
    assert told + last.told_events == list(map(encode, service.history.events(query)))
    await last.stop()


async def test_a_snapshot_is_what_is_pending_then_synced_at_its_revision(service: Service) -> None:
    first, second, _ = await service.do(create(), create(), create(workspace="v"))
    await service.do(answer(first))
    watcher = Watcher(service, W)
    await watcher.synced()
    assert [(batch.synced, batch.revision, len(batch.events)) for batch in watcher.batches] == [
        (False, None, 1), (True, 3, 0),
    ]  # fmt: skip
    assert is_pending(watcher.events[0])
    assert _id(watcher.events[0]) == second.id.encode()
    await watcher.stop()


async def test_a_workspace_that_nobody_used_is_synced_at_0(service: Service) -> None:
    for after in (None, 0):
        watcher = Watcher(service, W, after)
        await watcher.synced()
        assert (watcher.synced_at, watcher.events) == (0, [])
        await watcher.stop()


async def test_a_resumed_watch_says_once_that_the_past_is_over(service: Service) -> None:
    ask = await service.ask(create())
    await service.do(answer(ask))
    watcher = Watcher(service, W, 1)
    await watcher.synced()
    await service.do(create())
    await watcher.reached(3)
    assert [(batch.synced, batch.revision, len(batch.events)) for batch in watcher.batches] == [
        (False, 2, 1), (True, 2, 0), (False, 3, 1),
    ]  # fmt: skip
    await watcher.stop()


@pytest.mark.parametrize("after", [-1, 2, 2**63 - 1, -(2**63)])
async def test_a_revision_from_the_future_or_before_all_is_refused(service: Service, after: int) -> None:
    await service.do(create())
    with pytest.raises(AskdError, match="after_revision") as refused:
        await anext(service.asks.watch(access(), W, after))
    assert refused.value.code is Code.INVALID_ARGUMENTS


async def test_events_come_with_what_else_is_ready(service: Service) -> None:
    watcher = Watcher(service, W)
    await watcher.synced()
    with service.stage.holding_writes() as gate:
        calls = [asyncio.create_task(service.ask(create()))]
        await gate.reached()
        calls += [asyncio.create_task(service.ask(create())) for _ in range(50)]
        await asyncio.sleep(0)
    await asyncio.gather(*calls)
    await watcher.reached(51)
    assert len(watcher.batches) <= 4  # synced, the first, the rest
    await watcher.stop()


async def test_responses_are_bounded(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (hub, watching):
        monkeypatch.setattr(module, "EVENT_BYTES", 5000)
    live = Watcher(service, W, 0)
    await live.synced()
    await service.do(*(create(text_question("x" * 1000)) for _ in range(9)), create(text_question("x" * 9000)))
    await live.reached(10)
    later, snapshot = Watcher(service, W, 0), Watcher(service, W)
    for watcher in (later, snapshot):
        await watcher.synced()
    for watcher in (live, later, snapshot):
        assert watcher.told_events == watcher.expected(service.history)
        sizes = [[len(event.encoded) for event in batch.events] for batch in watcher.batches]
        assert all(len(events) == 1 or sum(events) <= 5000 for events in sizes if events)
        await watcher.stop()


async def test_watchers_of_the_same_share_one_response(service: Service) -> None:
    watchers = [Watcher(service, W) for _ in range(5)]
    for watcher in watchers:
        await watcher.synced()
    await service.do(create())
    for watcher in watchers:
        await watcher.reached(1)
        assert watcher.batches[-1] is watchers[0].batches[-1]
        await watcher.stop()


# --- what a caller may see ---


async def test_a_session_bound_caller_is_told_of_its_sessions_only(service: Service) -> None:
    grants = frozenset(Grant(role=Role.VIEWER, workspace_id="w", session_id=session) for session in ("s", "r"))
    for allowed in ({"s"}, {"s", "r"}):
        held = frozenset(grant for grant in grants if grant.session_id in allowed)
        bound = Caller(principal=access().principal, grants=held).enter("w")
        await service.do(*(create(session=session) for session in ("s", "r", "q")))
        watchers = [Watcher(service, W, caller=bound), Watcher(service, W, 0, caller=bound)]
        for watcher in watchers:
            await watcher.synced()
        await service.do(*(create(session=session) for session in ("q", "r", "s")))
        for watcher in watchers:
            expected = replace(watcher.query, scope=frozenset(allowed))
            watcher.query = expected
            await caught_up(service, watcher)
            assert watcher.told_events == watcher.expected(service.history)
            assert {event.session_id for event in watcher.events} == allowed
            await watcher.stop()


async def test_a_session_bound_caller_sees_nothing_of_another_session_that_it_names(service: Service) -> None:
    await service.do(create(session="r"))
    grant = Grant(role=Role.VIEWER, workspace_id="w", session_id="s")
    bound = Caller(principal=access().principal, grants=frozenset({grant})).enter("w")
    for after in (None, 0):
        watcher = Watcher(service, AskFilter(workspace_id="w", session_id="r"), after, bound)
        await watcher.synced()
        await service.do(create(session="r"))
        assert watcher.events == []
        await watcher.stop()


# --- what this server did not commit, or not hear of ---


async def test_what_another_server_committed_is_read_from_the_database(service: Service, store: Store) -> None:
    watcher = Watcher(service, W)
    await watcher.synced()
    await store.asks(*(create() for _ in range(5)))  # nobody tells the hub
    await service.writer.submit(create())
    await watcher.reached(6)
    assert [event.revision for event in watcher.events] == [1, 2, 3, 4, 5, 6]
    await watcher.stop()


async def test_a_watch_that_starts_ahead_of_the_hub_is_told_nothing_twice(service: Service, store: Store) -> None:
    """The database may know of a commit before this server's hub does. A watcher that joined then was told again, as
    events, of what its snapshot held or of what it had asked to resume after."""
    with service.hub.join("w") as ring:
        ring.begin(0)
        ask = await store.ask(create())
        answered = await store.apply(answer(ask), create())
        ahead = [Watcher(service, W), Watcher(service, W, 3), Watcher(service, replace(W, session_id="s"), 3)]
        for watcher in ahead:
            await watcher.synced()
            assert watcher.synced_at == 3
        service.hub.publish([*(await store.apply(create())).events])
        service.hub.publish(answered.events)
        for watcher in ahead:
            await watcher.reached(4)
            assert [event.revision for event in watcher.events if not is_pending(event)] == [4]
            await watcher.stop()


def is_pending(event: Recorded) -> bool:
    """Whether an event is of a snapshot."""
    return event.encoded.startswith(b"AskEvent(type=<EventType.PENDING")


async def test_a_watch_that_starts_ahead_of_the_hub_hears_of_it_in_order(service: Service, store: Store) -> None:
    with service.hub.join("w") as ring:
        ring.begin(0)
        applied = await store.apply(*(create() for _ in range(3)))
        watcher = Watcher(service, W, 2)
        await watcher.synced()
        service.hub.publish(applied.events)
        service.hub.publish((await store.apply(create())).events)
        await watcher.reached(4)
        assert [event.revision for event in watcher.events] == [3, 4]
        await watcher.stop()


async def test_a_commit_of_which_nobody_was_told_reaches_the_watchers_once_the_database_is_back(
    service: Service,
) -> None:
    """A commit succeeded, its answer was lost, and the retry found the database away: nothing had been published."""
    watcher = Watcher(service, W)
    await watcher.synced()
    service.stage.lost_answers = {1}
    service.stage.failed_writes = {2}
    with pytest.raises(AskdError):
        await service.ask(create())
    await service.ask(create(workspace="v"))  # the database is back, and another workspace goes on
    await service.poll()
    await watcher.reached(1)
    await watcher.stop()


async def test_payloads_that_were_erased_are_in_no_replay(service: Service) -> None:
    with service.hub.join("w"):
        ask = await service.ask(create(text_question("SECRET")))
        await service.do(answer(ask, "SECRET"))
        before = Watcher(service, W, 0)
        await before.reached(2)
        assert all(b"SECRET" in event for event in before.told_events)
        service.clock.advance(2 * 24 * 3600)
        await service.sweeper.run_once()
        after = Watcher(service, W, 0)
        await after.reached(2)
        assert [b"SECRET" in event for event in after.told_events] == [False, False]
        assert all(b"payload_expired=True" in event for event in after.told_events)
        for watcher in (before, after):
            await watcher.stop()


# --- slow readers ---


async def test_a_slow_watcher_costs_nobody_anything(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "RING_BYTES", 20_000)
    slow, quick = Watcher(service, W), Watcher(service, W)
    for watcher in (slow, quick):
        await watcher.synced()
    slow.pause()
    before = events_in_memory()
    for _ in range(8):
        await service.do(*(create() for _ in range(50)))
        await quick.reached(service.history.revision())
        quick.batches[1:] = []  # what it has taken is not the server's
    assert len(slow.events) <= 50  # took one response and no more
    assert events_in_memory() - before < 150  # of 400: what the ring keeps, and what the slow one has in hand
    slow.go_on()
    await slow.reached(400)
    assert slow.told_events == slow.expected(service.history)


def events_in_memory() -> int:
    return sum(isinstance(thing, Recorded) for thing in gc.get_objects())


# --- heartbeats ---


@pytest.fixture
async def beating(service: Service) -> Service:
    """A service that beats all the time."""
    service.asks._heartbeat = 0.005
    return service


@pytest.mark.parametrize(
    "query",
    [
        replace(W, session_id="nobody's"),
        replace(W, statuses=frozenset({AskStatus.REJECTED})),
        replace(W, session_id="s", turn_id="nobody's"),
        replace(W, scope=frozenset({"nobody's"})),
    ],
    ids=["a session", "a status", "a turn", "a scope"],
)
@pytest.mark.parametrize("after", [None, 0])
async def test_a_watch_that_matches_nothing_beats_with_the_current_revision(
    beating: Service, query: AskFilter, after: int | None
) -> None:
    watcher = Watcher(beating, query, after)
    await watcher.synced()
    for _ in range(3):
        ask = await beating.ask(create())
        await beating.do(answer(ask))
        await watcher.reached(beating.history.revision())
    assert watcher.events == []
    await watcher.stop()


async def test_an_idle_watch_beats(beating: Service) -> None:
    ask = await beating.ask(create())
    watcher = Watcher(beating, W)
    await watcher.synced()
    for _ in range(5):
        await watcher.told()
    assert [batch.revision for batch in watcher.batches[-4:]] == [1, 1, 1, 1]
    await beating.do(withdraw(ask))
    await watcher.reached(2)
    await watcher.stop()


async def test_a_watch_that_is_told_of_events_needs_no_heartbeats(service: Service) -> None:
    watcher = Watcher(service, W)
    await watcher.synced()
    for _ in range(5):
        await service.do(create())
    await watcher.reached(5)
    assert all(batch.events or batch.synced for batch in watcher.batches)
    await watcher.stop()


# --- the end ---


async def test_draining_ends_every_watch_as_unavailable(service: Service) -> None:
    await service.do(create())
    asleep, resumed, paused = Watcher(service, W), Watcher(service, W, 0), Watcher(service, W)
    for watcher in (asleep, resumed, paused):
        await watcher.synced()
    paused.pause()
    await service.do(create())
    await eventually(lambda: len(paused.events) == 2)
    service.streams.close()
    paused.go_on()
    for watcher in (asleep, resumed, paused):
        with pytest.raises(AskdError) as ended:
            await watcher.task
        assert ended.value.code is Code.UNAVAILABLE
        assert ended.value.retry_after
    with pytest.raises(AskdError, match=str(unavailable("the server is draining"))):
        await anext(service.asks.watch(access(), W, None))


@pytest.mark.parametrize("after", [None, 0])
async def test_draining_ends_a_watch_that_reads(service: Service, after: int | None) -> None:
    await service.do(*(create() for _ in range(3)))
    with service.stage.holding_what_was_read() as gate:
        watcher = Watcher(service, W, after)
        await gate.reached()
        service.streams.close()
    with pytest.raises(AskdError) as ended:
        await watcher.task
    assert ended.value.code is Code.UNAVAILABLE


async def test_a_database_that_is_away_ends_a_watch_that_needs_it_as_unavailable(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hub, "RING_BYTES", 1)
    slow, quick = Watcher(service, W), Watcher(service, W)
    for watcher in (slow, quick):
        await watcher.synced()
    slow.pause()
    for _ in range(3):
        await service.do(create())
        await quick.reached(service.history.revision())
    service.stage.failure = away()
    slow.go_on()
    for watcher in (slow, Watcher(service, W), Watcher(service, W, 0)):
        with pytest.raises(AskdError) as ended:
            await watcher.task
        assert ended.value.code is Code.UNAVAILABLE
    assert not quick.task.done()


@pytest.mark.parametrize("after", [None, 0], ids=["a snapshot", "a replay"])
async def test_a_watch_that_is_closed_at_a_response_is_over_at_once(service: Service, after: int | None) -> None:
    """Generators within it were once left to the garbage collector, which closed them in tasks of their own."""
    await service.do(create())
    loop = asyncio.get_running_loop()
    made: list[object] = []

    def factory(running: asyncio.AbstractEventLoop, coroutine: object, **named: object) -> "asyncio.Task[object]":
        made.append(coroutine)
        return asyncio.Task(coroutine, loop=running, **named)  # type: ignore[arg-type]

    async with aclosing(service.asks.watch(access(), W, after)) as batches:
        assert (await anext(batches)).events
        loop.set_task_factory(factory)  # type: ignore[arg-type]
    try:
        for _ in range(3):
            await asyncio.sleep(0)
    finally:
        loop.set_task_factory(None)
    assert made == []
    assert not service.hub._rings


@ONE_DATABASE
async def test_ten_thousand_watches_that_come_and_go_leave_nothing(service: Service) -> None:
    await service.do(*(create() for _ in range(3)))
    before = asyncio.all_tasks()
    objects = []
    for count in range(10):
        watches = [asyncio.create_task(watch_for_ever(service, number)) for number in range(1000)]
        for number in range(3):  # some leave before they begin, some while they read, the others asleep
            for task in watches[number::3]:
                task.cancel()
            await (service.asleep(0) if number else asyncio.sleep(0))
        await asyncio.gather(*watches, return_exceptions=True)
        del watches, task
        await eventually(lambda: asyncio.all_tasks() == before)
        if count in (2, 9):
            gc.collect()
            objects.append(len(gc.get_objects()))
    assert not service.hub._rings
    assert not service.streams._open
    assert objects[1] - objects[0] < 1000


async def watch_for_ever(service: Service, number: int) -> None:
    """Watch one of some workspaces."""
    query = AskFilter(workspace_id=f"{number % 10}")
    async with aclosing(service.asks.watch(access(workspace=query.workspace_id), query, 0)) as batches:
        async for _ in batches:
            pass
