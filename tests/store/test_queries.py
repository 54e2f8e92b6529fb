"""Lists, snapshots and events, against a model that keeps everything in lists (CONTRACT section 5)."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from itertools import pairwise

import pytest
from tests.store.commands import answer, create, text_question, withdraw
from tests.store.databases import Store
from tests.store.histories import Workload, dice, ids, keeps, places, subsets

from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus, EventType
from askd.domain.limits import PAGE
from askd.store import queries
from askd.store.queries import load_asks, load_events, load_page, load_snapshot

seeds = pytest.mark.parametrize("seed", range(3))

#: What a caller may see: all, some sessions, one, and one without asks.
SCOPES = [None, frozenset({"s", "r"}), frozenset({"r"}), frozenset({"nobody's"})]
EVERYTHING = AskFilter(workspace_id="w")


def filters(seed: int) -> list[AskFilter]:
    """A third of all the combinations of what a filter may name: each seed has its own."""
    combinations = [
        replace(place, statuses=statuses, scope=scope)
        for place in places()
        for statuses in subsets()
        for scope in SCOPES
    ]
    return combinations[seed::3]


Between = Callable[[], Awaitable[None]]


async def nothing() -> None:
    """What happens between the pages of a list that nobody changes."""


async def paged(store: Store, query: AskFilter, limit: int, between: Between = nothing) -> list[list[Ask]]:
    """Every page of a list."""
    pages: list[list[Ask]] = []
    after, more = 0, True
    while more:
        page = await store.read(partial(load_page, query=query, after=after, limit=limit))
        pages.append(page.asks)
        after, more = page.asks[-1].created_revision if page.asks else after, page.more
        await between()
    return pages


async def snapshot(store: Store, query: AskFilter, revision: int, limit: int, between: Between = nothing) -> list[Ask]:
    """Every page of a snapshot, in a row."""
    asks: list[Ask] = []
    after, more = 0, True
    while more:
        load = partial(load_snapshot, query=query, revision=revision, after=after, limit=limit)
        page = await store.read(load)
        asks += page.asks
        after, more = asks[-1].created_revision if asks else 0, page.more
        await between()
    return asks


async def followed(store: Store, query: AskFilter, after: int) -> list[AskEvent]:
    """Every event after a revision, read by read."""
    events: list[AskEvent] = []
    revision = await store.revision(query.workspace_id)
    while after < revision:
        found = await store.read(partial(load_events, query=query, after=after))
        assert after < found.revision <= revision
        events += found.events
        after = found.revision
    return events


# --- points ---


@seeds
async def test_asks_are_found_by_their_ids(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=15)
    asks = workload.history.asks()
    wanted = [ask.id for ask in asks[::2]]
    found = await store.read(lambda connection: load_asks(connection, [*wanted, "que_unknown"]))
    assert found == {ask.id: ask for ask in asks[::2]}


async def test_no_ids_are_no_asks(store: Store) -> None:
    assert await store.read(lambda connection: load_asks(connection, [])) == {}


async def test_a_workspace_that_nobody_used_is_at_revision_0(store: Store) -> None:
    assert await store.revision("nobody's") == 0


# --- lists ---


@seeds
async def test_a_page_is_what_its_filter_says_in_order_of_creation(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=15)
    chance = dice(seed)
    for query in filters(seed):
        after = chance.choice([0, 0, chance.randint(0, workload.history.revision())])
        limit = chance.choice([1, 2, 7, 100])
        page = await store.read(partial(load_page, query=query, after=after, limit=limit))
        assert (page.asks, page.more) == workload.history.page(query, after, limit), (query, after, limit)


async def test_a_page_says_whether_there_is_more_to_the_ask(store: Store) -> None:
    await store.asks(*(create() for _ in range(3)))
    pages = [await store.read(partial(load_page, query=EVERYTHING, after=0, limit=limit)) for limit in (2, 3, 4)]
    assert [(len(page.asks), page.more) for page in pages] == [(2, True), (3, False), (3, False)]


@seeds
async def test_pages_in_a_row_are_the_list(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=12)
    for query in [*places(), replace(EVERYTHING, statuses=frozenset({AskStatus.PENDING, AskStatus.REJECTED}))]:
        pages = await paged(store, query, limit=3)
        assert [ask for page in pages for ask in page] == workload.history.page(query, 0, 10**6)[0]


@seeds
@pytest.mark.parametrize("statuses", [frozenset(), frozenset({AskStatus.PENDING}), frozenset(AskStatus)], ids=len)
async def test_a_list_neither_skips_nor_repeats_while_asks_come_and_go(
    store: Store, seed: int, statuses: frozenset[AskStatus]
) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=12)
    query = AskFilter(workspace_id="w", session_id="s", statuses=statuses)
    before = workload.history.revision()
    rounds = iter(range(10))

    async def between() -> None:
        if next(rounds, None) is not None:
            await workload.run(store, batches=1)

    found = [ask for page in await paged(store, query, 2, between) for ask in page]
    order = [ask.created_revision for ask in found]
    assert all(earlier < later for earlier, later in pairwise(order))
    throughout = [
        ask
        for ask in workload.history.asks(at=before)
        if keeps(query, ask) and ask.id in ids(a for a in workload.history.asks() if keeps(query, a))
    ]
    assert set(ids(throughout)) <= set(ids(found))
    assert len(throughout) > 1


async def test_a_page_ends_before_it_is_too_large(store: Store) -> None:
    large = [text_question("x" * 200_000)] * 5
    for _ in range(2):
        await store.asks(*(create(*large) for _ in range(4)))
    pages = await paged(store, EVERYTHING, limit=100)
    assert [len(page) for page in pages] == [3, 3, 2]
    assert all(sum(len(ask.encoded_questions) for ask in page) < PAGE for page in pages)


async def test_answers_count_towards_a_page(store: Store) -> None:
    for _ in range(4):
        ask = await store.ask(create(*[text_question("x" * 32_000)] * 32))
        await store.ask(answer(ask, *["y" * 32_000] * 32))
    assert [len(page) for page in await paged(store, EVERYTHING, limit=100)] == [1, 1, 1, 1]


async def test_many_small_asks_leave_room_for_what_lies_beside_their_questions(store: Store) -> None:
    await store.asks(*(create() for _ in range(900)))
    page = await store.read(partial(load_page, query=EVERYTHING, after=0, limit=1000))
    assert page.more
    assert 500 < len(page.asks) < 900


# --- snapshots ---


@seeds
async def test_a_snapshot_is_what_was_pending_at_its_revision(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=12)
    chance = dice(seed)
    for query in filters(seed):
        revision = chance.randint(0, workload.history.revision())
        found = await snapshot(store, query, revision, limit=chance.choice([1, 3, 100]))
        expected = (
            [] if query.statuses and AskStatus.PENDING not in query.statuses else pending_at(workload, query, revision)
        )
        assert ids(found) == ids(expected), (query, revision)


def pending_at(workload: Workload, query: AskFilter, revision: int) -> list[Ask]:
    return workload.history.pending(query, at=revision)


@seeds
async def test_a_snapshot_stays_exact_while_asks_come_and_go(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=15)
    for query in places():
        revision = workload.history.revision()
        expected = workload.history.pending(query)
        found = await snapshot(store, query, revision, 2, partial(workload.run, store, batches=2))
        assert ids(found) == ids(expected)


async def test_a_snapshot_shows_what_has_been_resolved_since_with_its_questions(store: Store) -> None:
    ask = await store.ask(create(text_question("Why?")))
    await store.ask(answer(ask, "because"))
    (found,) = await snapshot(store, EVERYTHING, revision=1, limit=10)
    assert found.as_created() == ask


async def test_a_snapshot_s_pages_are_bounded_too(store: Store) -> None:
    for _ in range(2):
        asks = await store.asks(*(create(*[text_question("x" * 200_000)] * 5) for _ in range(4)))
        await store.ask(withdraw(asks[0]))
    page = await store.read(partial(load_snapshot, query=EVERYTHING, revision=8, after=0, limit=100))
    assert (len(page.asks), page.more) == (3, True)
    assert len(await snapshot(store, EVERYTHING, revision=8, limit=100)) == 6


# --- events ---


@seeds
async def test_events_are_the_history(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=14)
    for after in range(workload.history.revision() + 1):
        assert await followed(store, EVERYTHING, after) == workload.history.events(EVERYTHING, after)


@seeds
async def test_events_are_the_history_of_every_filter(store: Store, seed: int) -> None:
    workload = Workload(seed)
    await workload.run(store, batches=15)
    chance = dice(seed)
    for query in filters(seed):
        after = chance.choice([0, chance.randint(0, workload.history.revision())])
        assert await followed(store, query, after) == workload.history.events(query, after), (query, after)


@pytest.mark.parametrize("span", [1, 2, 7])
async def test_events_read_in_small_steps_are_the_history(
    store: Store, span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queries, "EVENT_SPAN", span)
    workload = Workload(span)
    await workload.run(store, batches=15)
    for query in places():
        assert await followed(store, query, 0) == workload.history.events(query)


async def test_a_read_of_events_says_how_far_it_came_though_nothing_passed_its_filter(store: Store) -> None:
    await store.asks(*(create(session="r") for _ in range(5)))
    found = await store.read(partial(load_events, query=AskFilter(workspace_id="w", session_id="s"), after=2))
    assert (found.events, found.revision) == ([], 5)


async def test_there_are_no_events_after_the_last(store: Store) -> None:
    await store.ask(create())
    found = await store.read(partial(load_events, query=EVERYTHING, after=1))
    assert (found.events, found.revision) == ([], 1)


async def test_an_event_shows_its_ask_as_of_itself(store: Store) -> None:
    ask = await store.ask(create())
    answered = await store.ask(answer(ask))
    events = await followed(store, EVERYTHING, 0)
    assert [(event.type, event.ask) for event in events] == [(EventType.ASKED, ask), (EventType.ANSWERED, answered)]


async def test_a_read_of_events_is_bounded_in_bytes(store: Store) -> None:
    for _ in range(3):
        await store.asks(*(create(*[text_question("x" * 200_000)] * 5) for _ in range(3)))
    found = await store.read(partial(load_events, query=EVERYTHING, after=0))
    assert (len(found.events), found.revision) == (3, 3)
    assert len(await followed(store, EVERYTHING, 0)) == 9
