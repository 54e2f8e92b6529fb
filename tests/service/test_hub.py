"""The hub: the newest events of what is watched, and who sleeps until the next (DESIGN, third idea)."""

import asyncio
from contextlib import ExitStack

import pytest
from tests.service.services import encode
from tests.store.commands import access, answer, create
from tests.store.databases import START

from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus
from askd.domain.asks import create as created_ask
from askd.domain.asks import created as created_event
from askd.domain.asks import resolve as resolved_ask
from askd.domain.asks import resolved as resolved_event
from askd.domain.errors import AskdError, unavailable
from askd.service import hub as module
from askd.service.hub import Hub, Recorded, Ring, record
from askd.service.streams import Stream

W = AskFilter(workspace_id="w")
S = AskFilter(workspace_id="w", session_id="s")
R = AskFilter(workspace_id="w", session_id="r")
LARGE = 10**9


def asked(revision: int, session: str = "s", workspace: str = "w") -> AskEvent:
    """The event of an ask's creation."""
    command = create(workspace=workspace, session=session)
    assert not isinstance(command.draft, AskdError)
    return created_event(created_ask(command, command.draft, START, revision))


def answered(ask: Ask, revision: int) -> AskEvent:
    return resolved_event(resolved_ask(answer(ask), ask, START, revision))


def event(
    revision: int, session: str = "s", size: int = 100, status: AskStatus = AskStatus.PENDING, at: int = START
) -> Recorded:
    """An event of a ring that takes so many bytes."""
    return Recorded(revision=revision, session_id=session, turn_id="t", status=status, at=at, encoded=b"x" * size)


def ring_of(*events: Recorded, start: int = 0, limit: int = LARGE) -> Ring:
    ring = Ring()
    ring.begin(start)
    for one in events:
        ring.append(one, limit)
    return ring


def taken(ring: Ring, revision: int, query: AskFilter = W) -> list[int] | None:
    """The revisions of the events that the ring has after a revision; None where it does not reach back so far."""
    batch = ring.after(query, revision)
    return None if batch is None else [one.revision for one in batch.events]


@pytest.fixture
def stream() -> Stream:
    """A watch."""
    return Stream(access())


def sleeping(ring: Ring, query: AskFilter, seconds: float = 60.0) -> "asyncio.Task[int]":
    """A watcher that sleeps."""
    return asyncio.create_task(ring.sleep(Stream(access()), query, seconds))


async def asleep() -> None:
    """Let watchers fall asleep, or wake those that are to."""
    for _ in range(3):
        await asyncio.sleep(0)


# --- the ring ---


def test_a_ring_has_what_came_after_its_beginning() -> None:
    ring = ring_of(*map(event, range(6, 10)), start=5)
    assert [taken(ring, revision) for revision in range(4, 10)] == [None, [6, 7, 8, 9], [7, 8, 9], [8, 9], [9], []]


def test_a_response_says_where_to_resume_after_it() -> None:
    ring = ring_of(*map(event, range(1, 4)))
    assert [batch.revision for revision in range(4) if (batch := ring.after(W, revision))] == [3, 3, 3, 3]


def test_a_filter_skips_events_and_moves_on() -> None:
    ring = ring_of(event(1, "r"), event(2), event(3, status=AskStatus.ANSWERED), event(4, "r"))
    assert taken(ring, 0, S) == [2, 3]
    assert taken(ring, 0, AskFilter(workspace_id="w", statuses=frozenset({AskStatus.ANSWERED}))) == [3]
    assert taken(ring, 0, AskFilter(workspace_id="w", session_id="s", turn_id="t")) == [2, 3]
    assert taken(ring, 0, AskFilter(workspace_id="w", session_id="s", turn_id="u")) == []
    assert taken(ring, 0, AskFilter(workspace_id="w", scope=frozenset({"r", "q"}))) == [1, 4]
    batch = ring.after(R, 0)
    assert batch is not None
    assert batch.revision == 4


def test_a_ring_that_is_full_drops_its_oldest_events() -> None:
    ring = ring_of(*map(event, range(1, 11)), limit=350)
    assert [taken(ring, revision) for revision in (6, 7, 9)] == [None, [8, 9, 10], [10]]


def test_a_ring_keeps_the_newest_event_however_large() -> None:
    ring = ring_of(event(1), event(2, size=1000), limit=350)
    assert [taken(ring, revision) for revision in (0, 1)] == [None, [2]]
    ring.append(event(3), 350)
    assert [taken(ring, revision) for revision in (1, 2)] == [None, [3]]


def test_an_event_that_is_known_changes_nothing() -> None:
    """A writer that does not know whether a commit was done tells of it again."""
    ring = ring_of(*map(event, range(1, 4)))
    for revision in (3, 1, 2):
        ring.append(event(revision), LARGE)
    assert taken(ring, 0) == [1, 2, 3]


def test_after_a_gap_the_ring_begins_anew_and_loses_nothing() -> None:
    ring = ring_of(event(1), event(2), event(6), event(7))
    assert ring.head == 7
    assert [taken(ring, revision) for revision in (0, 2, 4)] == [None, None, None]  # the database has those
    assert [taken(ring, revision) for revision in (5, 6)] == [[6, 7], [7]]


def test_an_event_published_before_the_beginning_is_known_decides_where_it_is() -> None:
    ring = Ring()
    ring.append(event(5), LARGE)
    ring.begin(4)
    assert (taken(ring, 3), taken(ring, 4)) == (None, [5])


def test_a_response_is_bounded_and_the_next_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "EVENT_BYTES", 250)
    ring = ring_of(*map(event, range(1, 6)), event(6, size=1000), event(7))
    assert [taken(ring, revision) for revision in (0, 2, 4, 5, 6)] == [[1, 2], [3, 4], [5], [6], [7]]


def test_watchers_at_one_revision_share_one_response() -> None:
    ring = ring_of(event(1), event(2))
    first = ring.after(W, 0)
    assert first is ring.after(W, 0)
    ring.append(event(3), LARGE)
    assert first is not ring.after(W, 0)
    assert taken(ring, 0) == [1, 2, 3]


def test_a_response_of_a_filter_is_nobody_else_s() -> None:
    ring = ring_of(event(1), event(2, "r"))
    everything = ring.after(W, 0)
    assert ring.after(S, 0) is not everything
    assert ring.after(W, 0) is everything
    assert taken(ring, 0) == [1, 2]


def test_a_ring_that_forgets_has_nothing_and_loses_nothing() -> None:
    ring = ring_of(event(1), event(2))
    ring.after(W, 0)
    ring.forget()
    assert [taken(ring, revision) for revision in (0, 1, 2)] == [None, None, []]
    ring.append(event(3), LARGE)
    assert taken(ring, 2) == [3]


def test_an_event_passes_the_filters_that_keep_its_ask() -> None:
    ask = asked(1, "s").ask
    for query in (W, S, R, AskFilter(workspace_id="w", statuses=frozenset({AskStatus.ANSWERED}))):
        for one in (created_event(ask), asked(2, "r"), answered(ask, 3)):
            assert record(one, encode).passes(query) == query.matches(one.ask)


def test_a_ring_forgets_what_is_older_than_payloads_are_kept() -> None:
    ring = ring_of(event(1, at=5), event(2, at=6), event(3, at=7))
    ring.after(W, 0)
    ring.forget_before(7)
    assert [taken(ring, revision) for revision in (0, 1, 2)] == [None, None, [3]]


# --- the ring, where other servers commit, too ---


def test_an_event_that_comes_early_waits_for_those_before_it() -> None:
    asked_for: list[tuple[int, int] | None] = []
    ring = Ring(lambda: asked_for.append(ring.gap))
    ring.begin(0)
    for revision in (4, 3, 6):
        ring.append(event(revision), LARGE)
    assert (ring.head, taken(ring, 0)) == (0, [])
    assert asked_for[-1] == (0, 2)
    ring.append(event(1), LARGE)
    assert (taken(ring, 0), asked_for[-1]) == ([1], (1, 2))
    ring.append(event(2), LARGE)
    assert (taken(ring, 0), asked_for[-1]) == ([1, 2, 3, 4], (4, 5))
    ring.append(event(5), LARGE)
    assert taken(ring, 0) == [1, 2, 3, 4, 5, 6]
    assert ring.gap is None


def test_too_many_early_events_are_read_from_the_database() -> None:
    ring = Ring(lambda: None)
    ring.begin(0)
    for revision in (3, 4, 5):
        ring.append(event(revision), 250)
    for revision in (1, 2):
        ring.append(event(revision), LARGE)
    assert ring.head == 4
    assert ring.gap == (4, 5)
    ring.append(event(5), LARGE)
    assert taken(ring, 0) == [1, 2, 3, 4, 5]
    assert not ring.gap


def test_a_word_of_a_commit_is_a_gap_until_its_event_comes() -> None:
    asked_for: list[tuple[int, int] | None] = []
    ring = Ring(lambda: asked_for.append(ring.gap))
    ring.hear(2)  # nothing is missing before it is known where the ring begins
    assert asked_for == []
    ring.begin(1)
    ring.hear(1)
    assert asked_for == [(1, 2), (1, 2)]
    ring.append(event(2), LARGE)
    assert (taken(ring, 1), ring.gap) == ([2], None)


def test_a_ring_that_forgets_keeps_no_early_events() -> None:
    ring = Ring(lambda: None)
    ring.begin(0)
    ring.append(event(2), LARGE)
    ring.forget()
    assert ring.gap == (0, 2)
    ring.append(event(1), LARGE)
    assert (taken(ring, 0), ring.gap) == ([1], (1, 2))


# --- sleeping ---


async def test_a_sleeper_is_woken_by_an_event_of_its_session_only() -> None:
    ring = ring_of(event(1))
    in_s, in_r, in_all = sleeping(ring, S), sleeping(ring, R), sleeping(ring, W)
    await asleep()
    ring.append(event(2, "s"), LARGE)
    await asleep()
    assert (in_s.done(), in_r.done(), in_all.done()) == (True, False, True)
    ring.append(event(3, "r"), LARGE)
    assert [await in_s, await in_all, await in_r] == [1, 1, 2]  # up to where nothing concerned them


async def test_a_sleeper_that_is_woken_once_is_told_where_it_was(stream: Stream) -> None:
    ring = ring_of(event(1))
    sleeper = asyncio.create_task(ring.sleep(stream, W, 60))
    await asleep()
    for revision in (2, 3, 4):
        ring.append(event(revision), LARGE)
    assert await sleeper == 1


async def test_a_sleeper_whose_time_is_over_is_told_the_current_revision() -> None:
    ring = ring_of(event(1))
    sleeper = sleeping(ring, R, 0.01)
    await asleep()
    ring.append(event(2, "s"), LARGE)
    assert await sleeper == 2


async def test_a_gap_wakes_every_sleeper_where_it_was() -> None:
    ring = ring_of(event(1))
    sleepers = [sleeping(ring, query) for query in (W, S, R)]
    await asleep()
    ring.append(event(5), LARGE)
    assert [await sleeper for sleeper in sleepers] == [1, 1, 1]


async def test_a_stream_that_ends_wakes_its_sleeper_with_the_error(stream: Stream) -> None:
    ring = ring_of(event(1))
    sleeper = asyncio.create_task(ring.sleep(stream, W, 60))
    other = sleeping(ring, W)
    await asleep()
    stream.end(unavailable("draining"))
    with pytest.raises(AskdError, match="draining"):
        await sleeper
    assert not other.done()
    other.cancel()
    with pytest.raises(AskdError, match="draining"):
        await ring.sleep(stream, W, 60)


async def follow(ring: Ring, told: list[list[int]], last: int) -> None:
    """Take events and sleep again, as a watcher does, until the last."""
    revision = ring.head
    while revision < last:
        revision = max(revision, await ring.sleep(Stream(access()), W, 60.0))
        if found := taken(ring, revision):
            told.append(found)
            revision = found[-1]
            await asleep()  # sending takes its turns of the event loop, in which further events come


async def test_a_crowd_is_told_of_a_burst_in_a_few_responses() -> None:
    """Each event of a burst once woke every watcher, and no other call came to pass between two."""
    ring = ring_of()
    told: list[list[int]] = []
    crowd = [asyncio.create_task(follow(ring, told, 100)) for _ in range(2 * module.CROWD)]
    await asleep()
    for revision in range(1, 101):
        ring.append(event(revision), LARGE)
        await asyncio.sleep(0)
    await asyncio.gather(*crowd)
    assert len(told) <= 34 * len(crowd)  # one event of three finds them awake, at most
    assert sum(map(len, told)) == 100 * len(crowd)


async def test_a_crowd_that_was_served_is_woken_at_once() -> None:
    ring = ring_of()
    for revision in (1, 2):
        crowd = [sleeping(ring, W) for _ in range(module.CROWD)]
        await asleep()
        ring.append(event(revision), LARGE)
        assert await asyncio.gather(*crowd) == [revision - 1] * len(crowd)


async def test_a_crowd_that_is_slow_keeps_nobody_asleep_for_ever() -> None:
    ring = ring_of()
    crowd = [sleeping(ring, W) for _ in range(module.CROWD)]
    await asleep()
    ring.append(event(1), LARGE)
    await asyncio.gather(*crowd)  # none of which sleeps again
    late = sleeping(ring, W)
    await asleep()
    ring.append(event(2), LARGE)
    assert await late == 1


async def test_sleepers_leave_nothing_behind() -> None:
    ring = ring_of(event(1))
    woken, timed, gone = sleeping(ring, S), sleeping(ring, R, 0.0), sleeping(ring, W)
    await asleep()
    ring.append(event(2), LARGE)
    gone.cancel()
    await asyncio.wait([woken, timed, gone])
    assert not ring._sleepers


# --- the hub ---


def recording(encoded: list[AskEvent]) -> module.Encode:
    """An encoding that notes what it encodes."""

    def note(one: AskEvent) -> bytes:
        encoded.append(one)
        return encode(one)

    return note


def test_nothing_is_kept_of_what_nobody_watches() -> None:
    encoded: list[AskEvent] = []
    hub = Hub(recording(encoded))
    hub.publish([asked(1), asked(2)])
    assert encoded == []
    assert not hub._rings


def test_an_event_is_converted_once_for_all_watchers() -> None:
    encoded: list[AskEvent] = []
    hub = Hub(recording(encoded))
    with hub.join("w") as ring, hub.join("w") as same:
        assert ring is same
        ring.begin(0)
        hub.publish([first := asked(1), asked(1, workspace="v")])
        hub.publish([first])
        for _ in range(3):
            ring.after(W, 0)
    assert encoded == [first]


def test_a_ring_lasts_as_long_as_its_watchers() -> None:
    hub = Hub(encode)
    with hub.join("w") as ring:
        with hub.join("w"):
            pass
        with hub.join("w") as again:
            assert again is ring
    with hub.join("w") as new:
        assert new is not ring
        assert new.head == -1
    assert not hub._rings


def test_watched_workspaces_share_the_bytes_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(encode(asked(1)))
    monkeypatch.setattr(module, "RING_BYTES", 4 * size + 200)
    hub = Hub(encode)
    with ExitStack() as stack:
        ring = stack.enter_context(hub.join("w"))
        ring.begin(0)
        hub.publish(list(map(asked, range(1, 11))))
        assert taken(ring, 6) is not None
        stack.enter_context(hub.join("v"))
        hub.publish([asked(11)])
        assert taken(ring, 6) is None
        assert taken(ring, 9) is not None


def test_each_workspace_hears_of_its_own() -> None:
    hub = Hub(encode)
    with hub.join("w") as ring, hub.join("v") as other:
        ring.begin(0)
        other.begin(0)
        hub.publish([asked(1), asked(1, workspace="v"), asked(2)])
        assert (taken(ring, 0), taken(other, 0)) == ([1, 2], [1])


# --- waits ---


async def test_a_wait_is_over_with_the_resolution_of_its_ask() -> None:
    hub = Hub(encode)
    ask, other = asked(1).ask, asked(2).ask
    with hub.wait(ask.id) as mine, hub.wait(ask.id) as same, hub.wait(other.id) as others:
        hub.publish([created_event(ask), created_event(other)])
        assert not mine.done()
        hub.publish([resolution := answered(ask, 3)])
        assert mine.result() is same.result() is resolution.ask
        assert not others.done()
        hub.publish([resolution])  # told again, it changes nothing
    assert not hub._waits


async def test_waits_need_no_watchers_and_leave_nothing() -> None:
    hub = Hub(encode)
    for _ in range(3):
        with hub.wait("que_1"), hub.wait("que_1"):
            pass
    assert not hub._waits
    assert not hub._rings
