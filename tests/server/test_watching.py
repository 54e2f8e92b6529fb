"""WatchAsks over the wire (CONTRACT section 5)."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.clients import ANSWERED, CANCELLED, MIB, PENDING, REJECTED, Client, grant, refusal
from tests.conditions import eventually
from tests.questions import text, text_question
from tests.servers import Served, served

from askd.domain.asks import AskEvent
from askd.v1 import ask_pb2

HEARTBEAT = 0.25

SNAPSHOT = ask_pb2.ASK_EVENT_TYPE_PENDING
ASKED = ask_pb2.ASK_EVENT_TYPE_ASKED
TYPES = {
    ANSWERED: ask_pb2.ASK_EVENT_TYPE_ANSWERED,
    REJECTED: ask_pb2.ASK_EVENT_TYPE_REJECTED,
    CANCELLED: ask_pb2.ASK_EVENT_TYPE_CANCELLED,
}


@pytest.fixture
async def beating(tmp_path: Path, database_settings: dict[str, str]) -> AsyncIterator[Served]:
    """A server whose watches beat often."""
    async with served(tmp_path / "data", environment=database_settings, watch={"heartbeat": HEARTBEAT}) as running:
        yield running


async def make_history(client: Client, **fields: Any) -> list[ask_pb2.AskEvent]:
    """Some asks and resolutions, and the events that a watch from the beginning must show, each held to what the calls
    returned."""
    asks = [await client.ask(text_question(str(number)), **fields) for number in range(4)]
    workspace = {name: value for name, value in fields.items() if name == "workspace_id"}
    await client.answer(asks[1].id, text("Ada"), **workspace)
    await client.reject(asks[0].id, reason="no", **workspace)
    asks.append(await client.ask(**fields))
    await client.cancel(asks[3].id, **workspace)
    events = [ask_pb2.AskEvent(type=ASKED, revision=ask.created_revision, ask=ask) for ask in asks]
    latest = [await client.get(ask.id, **workspace) for ask in asks]
    events += [
        ask_pb2.AskEvent(type=TYPES[ask.status], revision=ask.resolved_revision, ask=ask)
        for ask in latest
        if ask.status != PENDING
    ]
    return sorted(events, key=lambda event: event.revision)


def snapshot(*asks: ask_pb2.AskState) -> list[ask_pb2.AskEvent]:
    return [ask_pb2.AskEvent(type=SNAPSHOT, revision=ask.created_revision, ask=ask) for ask in asks]


def revisions(events: Sequence[ask_pb2.AskEvent]) -> list[int]:
    return [event.revision for event in events]


async def test_a_workspace_that_was_never_used_is_synced_at_revision_0(admin: Client) -> None:
    for fields in ({}, {"after_revision": 0}):
        async with admin.watch(**fields) as watcher:
            first = await watcher.response()
            assert (list(first.events), first.HasField("revision"), first.revision, first.synced) == ([], True, 0, True)


async def test_a_snapshot_is_what_is_pending_in_order_of_creation(admin: Client) -> None:
    history = await make_history(admin)
    pending = await admin.list_all(statuses=[PENDING])
    async with admin.watch() as watcher:
        assert await watcher.until_synced() == snapshot(*pending)
        assert watcher.revision == len(history)


async def test_after_a_snapshot_comes_every_event_as_it_happens(admin: Client) -> None:
    first = await admin.ask()
    async with admin.watch() as watcher:
        await watcher.until_synced()
        await admin.answer(first.id)
        second = await admin.ask()
        await admin.cancel(second.id)
        events = await watcher.events(3)
    resolved = [await admin.get(ask.id) for ask in (first, second)]
    assert events == [
        ask_pb2.AskEvent(type=TYPES[ANSWERED], revision=2, ask=resolved[0]),
        ask_pb2.AskEvent(type=ASKED, revision=3, ask=second),
        ask_pb2.AskEvent(type=TYPES[CANCELLED], revision=4, ask=resolved[1]),
    ]
    assert watcher.revision == 4


async def test_a_watch_resumes_after_any_revision(admin: Client) -> None:
    history = await make_history(admin)
    for revision in range(len(history) + 1):
        async with admin.watch(after_revision=revision) as watcher:
            assert await watcher.until_synced() == history[revision:], "each ask as of its event"
            assert watcher.revision == len(history)


async def test_a_resumed_watch_goes_on_with_what_happens(admin: Client) -> None:
    history = await make_history(admin)
    async with admin.watch(after_revision=3) as watcher:
        await watcher.until_synced()
        ask = await admin.ask()
        assert await watcher.events(1) == [ask_pb2.AskEvent(type=ASKED, revision=len(history) + 1, ask=ask)]


async def test_a_watch_resumes_after_a_restart(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as first:
        history = await make_history(first.admin)
    async with (
        served(tmp_path / "data", environment=database_settings) as second,
        second.admin.watch(after_revision=2) as watcher,
    ):
        assert await watcher.until_synced() == history[2:]
        ask = await second.admin.ask()
        assert [event.ask for event in await watcher.events(1)] == [ask]


@pytest.mark.parametrize("after", [1, 2**63 - 1, -1, -(2**63)])
async def test_a_revision_that_never_was_is_refused(admin: Client, after: int) -> None:
    async with admin.watch(after_revision=after) as watcher:
        refused = await watcher.end()
    assert (refused.status, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid_arguments")
    assert refused.fields == ("after_revision",)


async def test_the_newest_revision_is_not_from_the_future(admin: Client) -> None:
    ask = await admin.ask()
    async with admin.watch(after_revision=1) as watcher:
        assert await watcher.until_synced() == []
        await admin.cancel(ask.id)
        assert revisions(await watcher.events(1)) == [2]
    assert (await refusal(admin.watch(after_revision=3).response())).fields == ("after_revision",)


@pytest.mark.parametrize("statuses", [[0], [5], [-1], [PENDING, 99]])
async def test_an_unknown_status_is_refused(admin: Client, statuses: list[int]) -> None:
    refused = await refusal(admin.watch(statuses=statuses).response())
    assert (refused.reason, refused.fields) == ("invalid_arguments", (f"statuses[{len(statuses) - 1}]",))


@pytest.mark.parametrize("statuses", [[PENDING], [ANSWERED], [REJECTED, CANCELLED], [PENDING, ANSWERED], [1, 2, 3, 4]])
async def test_states_keep_the_events_whose_ask_has_one_as_of_the_event(admin: Client, statuses: list[int]) -> None:
    history = await make_history(admin)
    kept = [event for event in history if event.ask.status in statuses]
    pending = await admin.list_all(statuses=[PENDING]) if PENDING in statuses else []
    async with (
        admin.watch(statuses=statuses, after_revision=0) as resumed,
        admin.watch(statuses=statuses) as fresh,
    ):
        assert await resumed.until_synced() == kept
        assert resumed.revision == len(history)
        assert await fresh.until_synced() == snapshot(*pending)
        asks = [await admin.ask() for _ in range(4)]
        for resolve, ask in zip((admin.answer, admin.reject, admin.cancel), asks, strict=False):
            await resolve(ask.id)
        async with admin.watch(after_revision=len(history)) as everything:
            live = [event for event in await everything.until_synced() if event.ask.status in statuses]
        for watcher in (resumed, fresh):
            assert await watcher.events(len(live)) == live


@pytest.mark.parametrize("fields", [{"session_id": "s"}, {"turn_id": "t"}, {"session_id": "s", "turn_id": "t"}])
async def test_a_watch_may_be_of_one_session_or_turn(admin: Client, fields: dict[str, str]) -> None:
    async def ask_everywhere() -> list[ask_pb2.AskState]:
        return [await admin.ask(session_id=session, turn_id=turn) for session in ("s", "r") for turn in ("t", "")]

    def mine(asks: list[ask_pb2.AskState]) -> list[str]:
        return [ask.id for ask in asks if all(getattr(ask, name) == value for name, value in fields.items())]

    before = await ask_everywhere()
    await admin.cancel(before[0].id)
    async with admin.watch(**fields) as fresh, admin.watch(**fields, after_revision=0) as resumed:
        assert [event.ask.id for event in await fresh.until_synced()] == mine(before[1:])
        assert [event.ask.id for event in await resumed.until_synced()] == [*mine(before), before[0].id]
        assert fresh.revision == resumed.revision == 5
        after = await ask_everywhere()
        for watcher in (fresh, resumed):
            assert [event.ask.id for event in await watcher.events(len(mine(after)))] == mine(after)


async def test_workspaces_are_watched_apart(admin: Client) -> None:
    async with admin.watch(workspace_id="v") as watcher:
        await watcher.until_synced()
        await admin.ask(workspace_id="w")
        ask = await admin.ask(workspace_id="v")
        assert [event.ask for event in await watcher.events(1)] == [ask]


async def test_an_empty_workspace_is_the_callers_own(admin: Client) -> None:
    asker = await admin.with_grants(grant("asker", "w"))
    ask = await asker.ask(workspace_id="")
    async with asker.watch(workspace_id="") as watcher:
        assert [event.ask for event in await watcher.until_synced()] == [ask]


async def test_a_long_snapshot_has_no_revision_before_it_is_whole(admin: Client) -> None:
    asks = await asyncio.gather(*[admin.ask() for _ in range(350)])
    async with admin.watch() as watcher:
        seen: list[ask_pb2.AskEvent] = []
        while not watcher.synced:
            response = await watcher.response()
            seen += response.events
            assert response.HasField("revision") is response.synced
        assert watcher.revision == 350
    assert seen == snapshot(*sorted(asks, key=lambda ask: ask.created_revision))


async def test_a_snapshot_is_of_one_moment_though_asks_come_and_go_meanwhile(admin: Client) -> None:
    asks = await asyncio.gather(*[admin.ask() for _ in range(250)])
    stop = asyncio.Event()

    async def change() -> None:
        for ask in reversed(asks):
            if stop.is_set():
                return
            await admin.cancel(ask.id)
            await admin.ask()

    changing = asyncio.create_task(change())
    try:
        await eventually(lambda: _resolved(admin, 5))
        async with admin.watch() as watcher:
            shown = await watcher.until_synced()
            revision = watcher.revision or 0
            async with admin.watch(after_revision=0) as log:
                events = [event for event in await log.until_synced() if event.revision <= revision]
    finally:
        stop.set()
        await changing
    pending = {event.ask.id: event.ask for event in events if event.type == ASKED}
    for event in events:
        if event.type != ASKED:
            del pending[event.ask.id]
    assert len(events) == revision
    assert shown == snapshot(*pending.values())


async def _resolved(client: Client, count: int) -> bool:
    return len((await client.page(statuses=[CANCELLED])).asks) >= count


async def test_what_is_ready_together_arrives_together(admin: Client) -> None:
    await asyncio.gather(*[admin.ask() for _ in range(200)])
    async with admin.watch(after_revision=0) as watcher:
        first = await watcher.response()
        assert len(first.events) == 200
        assert first.revision == 200


async def test_responses_stay_under_3_mib_however_large_the_asks(admin: Client) -> None:
    big = [text_question("x" * 250_000)] * 4
    async with admin.watch() as live:
        await live.until_synced()
        asks = await asyncio.gather(*[admin.ask(*big) for _ in range(8)])
        seen = [event.ask.id for event in await live.events(8)]  # the watcher checks each response's size
    async with admin.watch() as fresh, admin.watch(after_revision=0) as resumed:
        for watcher in (fresh, resumed):
            events = await watcher.until_synced()
            assert revisions(events) == list(range(1, 9))
            assert sum(event.ByteSize() for event in events) > 8 * MIB * 0.9
            assert seen == [event.ask.id for event in events]
    assert set(seen) == {ask.id for ask in asks}


async def test_an_event_of_the_largest_size_is_sent(admin: Client) -> None:
    async with admin.watch() as live:
        await live.until_synced()
        ask = await admin.ask(*[text_question("x" * 32_600)] * 32)
        await admin.answer(ask.id, *[text("x" * 32_600)] * 32)
        assert (await live.events(2))[1].ByteSize() > 2 * MIB * 0.95


# --- heartbeats ---


async def test_an_idle_watch_beats_with_the_current_revision(beating: Served) -> None:
    await beating.admin.ask()
    async with beating.admin.watch() as watcher:
        await watcher.until_synced()
        for _ in range(3):
            begin = time.monotonic()
            beat = await watcher.response()
            assert (list(beat.events), beat.revision, beat.synced) == ([], 1, False)
            assert time.monotonic() - begin < HEARTBEAT + 2


@pytest.mark.parametrize("fields", [{"session_id": "quiet"}, {"turn_id": "quiet"}, {"statuses": [REJECTED]}])
async def test_a_watch_whose_filter_matches_nothing_beats_with_the_revision_that_others_reached(
    beating: Served, fields: dict[str, Any]
) -> None:
    async with beating.admin.watch(**fields) as watcher:
        await watcher.until_synced()
        for expected in (1, 2):
            await beating.admin.ask()
            while (watcher.revision or 0) < expected:
                assert not (await watcher.response()).events
        assert watcher.revision == 2
    async with beating.admin.watch(**fields, after_revision=watcher.revision) as resumed:
        assert await resumed.until_synced() == []


async def test_a_busy_watch_still_beats_where_its_filter_matches_nothing(beating: Served) -> None:
    stop = asyncio.Event()

    async def ask_on() -> None:
        while not stop.is_set():
            await beating.admin.ask()

    asking = asyncio.create_task(ask_on())
    try:
        async with beating.admin.watch(statuses=[REJECTED]) as watcher:
            await watcher.until_synced()
            for _ in range(3):
                begin = time.monotonic()
                assert not (await watcher.response()).events
                assert time.monotonic() - begin < HEARTBEAT + 2
    finally:
        stop.set()
        await asking


async def test_what_happens_between_two_watches_is_not_lost_though_only_a_beat_said_where_to_resume(
    beating: Served,
) -> None:
    fields = {"session_id": "mine"}
    async with beating.admin.watch(**fields) as watcher:
        await watcher.until_synced()
        await beating.admin.ask()
        while watcher.revision != 1:
            await watcher.response()
    ask = await beating.admin.ask(session_id="mine")
    async with beating.admin.watch(**fields, after_revision=1) as resumed:
        assert [event.ask for event in await resumed.until_synced()] == [ask]


# --- order and repetition behind the wire ---


async def test_an_event_that_is_committed_but_not_yet_published_is_not_sent_twice(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch that read the database past what the ring knew must not go back when the ring hears of it."""
    published = _hold_back(server, monkeypatch)
    async with server.admin.watch() as elder:  # so that the ring is there
        await elder.until_synced()
        asks = await asyncio.gather(*[server.admin.ask() for _ in range(5)])
        async with server.admin.watch(after_revision=5) as resumed, server.admin.watch() as fresh:
            assert await resumed.until_synced() == []
            assert len(await fresh.until_synced()) == len(asks)
            published()
            assert revisions(await elder.events(5)) == [1, 2, 3, 4, 5]
            monkeypatch.undo()
            await server.admin.ask()
            for watcher in (resumed, fresh):
                assert revisions(await watcher.events(1)) == [6]


async def test_what_is_committed_but_not_yet_published_is_past_and_comes_before_synced(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with server.admin.watch() as elder:
        await elder.until_synced()
        _hold_back(server, monkeypatch)
        await asyncio.gather(*[server.admin.ask() for _ in range(5)])
        async with server.admin.watch(after_revision=2) as resumed:
            assert revisions(await resumed.until_synced()) == [3, 4, 5]


async def test_a_beat_does_not_go_back_where_the_ring_is_behind(
    beating: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    _hold_back(beating, monkeypatch)
    async with beating.admin.watch() as elder:
        await elder.until_synced()
        await beating.admin.ask()
        async with beating.admin.watch(after_revision=1) as resumed:
            assert await resumed.until_synced() == []
            assert (await resumed.response()).revision == 1


def _hold_back(server: Served, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Keep the writer's events from the hub until the returned function is called."""
    held: list[Sequence[AskEvent]] = []
    publish = server.server.writer._publish
    monkeypatch.setattr(server.server.writer, "_publish", held.append)

    def release() -> None:
        for events in held:
            publish(events)

    return release


async def test_a_watch_that_the_ring_left_behind_reads_the_database(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("askd.service.hub.RING_BYTES", 2_000)
    async with server.admin.watch() as live:
        await live.until_synced()
        for _ in range(30):
            await server.admin.ask()
        async with server.admin.watch(after_revision=3) as resumed:
            assert revisions(await resumed.until_synced()) == list(range(4, 31))
        assert revisions(await live.events(30)) == list(range(1, 31))


async def test_watches_that_are_given_up_leave_nothing_behind(server: Served) -> None:
    hub, under_way = server.server.hub, server.server.interceptor.under_way
    watchers = [server.admin.watch(workspace_id=f"w{number % 3}") for number in range(30)]
    for watcher in watchers:
        await watcher.until_synced()
    assert len(hub._rings) == 3
    for watcher in watchers:
        watcher.call.cancel()
    await eventually(lambda: not hub._rings and not under_way.total())


# --- the end of credentials ---


async def test_a_revoked_key_ends_its_watches_and_waits_within_5_s(admin: Client) -> None:
    created = await admin.create_key(grant("asker", "w"))
    asker = admin.other(created.secret)
    ask = await asker.ask()
    async with asker.watch() as watcher:
        await watcher.until_synced()
        wait = asyncio.create_task(refusal(asker.wait(ask.id, 60, deadline=None)))
        await admin.revoke_key(created.key.id)
        begin = time.monotonic()
        assert (await watcher.end()).reason == "unauthenticated"
        assert (await wait).reason == "unauthenticated"
        assert time.monotonic() - begin < 6
