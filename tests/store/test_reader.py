"""Point reads: one query for all that wait (DESIGN, second idea)."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from tests.store.commands import answer, create
from tests.store.databases import Store
from tests.store.stages import Stage, away

from askd.domain.asks import Ask, AskFilter, AskStatus
from askd.domain.errors import AskdError, Code
from askd.store import reader as module
from askd.store.cache import AskCache
from askd.store.database import Database
from askd.store.queries import load_revision
from askd.store.reader import Reader


@dataclass
class Reading:
    """A reader on a stage."""

    stage: Stage
    reader: Reader

    def get(self, ask_id: str) -> "asyncio.Task[Ask | None]":
        """Read as a caller of its own."""
        return asyncio.create_task(self.reader.get(ask_id))


@pytest.fixture
async def reading(database: Database) -> AsyncIterator[Reading]:
    """A reader."""
    stage = Stage(database)
    reader = Reader(stage)
    yield Reading(stage, reader)
    await reader.close()


async def test_reads_that_come_during_a_read_are_one(reading: Reading, store: Store) -> None:
    asks = await store.asks(*(create() for _ in range(10)))
    with reading.stage.holding_reads() as gate:
        first = reading.get(asks[0].id)
        await gate.reached()
        rest = [reading.get(asks[number % 10].id) for number in range(100)]
        await asyncio.sleep(0)
    found = await asyncio.gather(first, *rest)
    assert found == [asks[0], *asks * 10]
    assert reading.stage.reads == 2


async def test_one_query_has_a_bound(reading: Reading, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 4)
    asks = await store.asks(*(create() for _ in range(10)))
    assert await asyncio.gather(*(reading.get(ask.id) for ask in asks)) == asks
    assert reading.stage.reads == 3


async def test_what_is_committed_before_a_read_is_seen_though_another_is_under_way(
    reading: Reading, store: Store
) -> None:
    ask = await store.ask(create())
    with reading.stage.holding_what_was_read() as gate:
        early = reading.get(ask.id)
        await gate.reached()
        answered = await store.ask(answer(ask))
        late = reading.get(ask.id)
        await asyncio.sleep(0)
    assert await early == ask
    assert await late == answered
    assert answered.status is AskStatus.ANSWERED


async def test_an_unknown_id_is_nothing(reading: Reading, store: Store) -> None:
    ask = await store.ask(create())
    unknown = ["", "que_unknown", "x" * 5000, ask.id.upper()]
    assert await asyncio.gather(*map(reading.reader.get, unknown)) == [None] * 4


async def test_a_database_that_is_away_is_unavailable_to_all_that_wait(reading: Reading, store: Store) -> None:
    ask = await store.ask(create())
    reading.stage.failure = away()
    for result in await asyncio.gather(*(reading.get(ask.id) for _ in range(5)), return_exceptions=True):
        assert isinstance(result, AskdError)
        assert result.code is Code.UNAVAILABLE
        assert result.retry_after
        assert "SECRET" not in str(result)
    reading.stage.failure = None
    assert await reading.reader.get(ask.id) == ask


async def test_other_reads_are_unavailable_with_the_database(reading: Reading) -> None:
    assert await reading.reader.read(lambda connection: load_revision(connection, "w")) == 0
    reading.stage.failure = away()
    with pytest.raises(AskdError, match="the database is away"):
        await reading.reader.read(lambda connection: load_revision(connection, "w"))


async def test_a_fault_of_the_program_is_not_taken_for_the_database_s(reading: Reading) -> None:
    with pytest.raises(ZeroDivisionError):
        await reading.reader.read(lambda _: 1 // 0)


async def test_a_caller_that_goes_away_takes_nothing_from_the_others(reading: Reading, store: Store) -> None:
    ask = await store.ask(create())
    with reading.stage.holding_reads() as gate:
        first, gone, stays = reading.get(ask.id), reading.get(ask.id), reading.get(ask.id)
        await gate.reached()
        first.cancel()
        gone.cancel()
        late = reading.get(ask.id)
        await asyncio.sleep(0)
    assert await stays == await late == ask
    assert first.cancelled()
    assert gone.cancelled()


async def test_closing_finishes_the_reads_that_wait(reading: Reading, store: Store) -> None:
    ask = await store.ask(create())
    with reading.stage.holding_reads() as gate:
        first = reading.get(ask.id)
        await gate.reached()
        second = reading.get("que_other")
        await asyncio.sleep(0)
        closing = asyncio.create_task(reading.reader.close())
        await asyncio.sleep(0)
    await closing
    assert (first.result(), second.result()) == (ask, None)


async def test_an_idle_reader_has_no_task(reading: Reading, store: Store) -> None:
    before = asyncio.all_tasks()
    await reading.reader.get((await store.ask(create())).id)
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == before


async def test_the_asks_of_a_small_page_are_kept_and_those_of_a_large_one_are_not(
    database: Database, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    asks = await store.asks(create(), create())
    for most, kept in ((1, 0), (2, 2)):
        monkeypatch.setattr(module, "KEPT", most)
        cache = AskCache()
        reader = Reader(database, cache)
        page = await reader.page(AskFilter(workspace_id="w"), 0, 10)
        assert [ask.id for ask in page.asks] == [ask.id for ask in asks]
        assert sum(cache.peek(ask.id) is not None for ask in asks) == kept
        assert await reader.page(AskFilter(workspace_id="w"), 0, 10) == page


async def test_a_page_is_read_once_until_its_workspace_changes(database: Database, store: Store) -> None:
    stage, cache = Stage(database), AskCache()
    reader = Reader(stage, cache)
    (ask,) = await store.asks(create())
    pages = [await reader.page(AskFilter(workspace_id="w"), 0, 10) for _ in range(3)]
    assert ([page.asks for page in pages], stage.reads) == ([[ask]] * 3, 1)
    await reader.page(AskFilter(workspace_id="w"), 0, 9)
    await reader.page(AskFilter(workspace_id="w", session_id="s"), 0, 10)
    assert stage.reads == 3
    with cache.changing([command := create()]):
        await store.ask(command)
    assert len((await reader.page(AskFilter(workspace_id="w"), 0, 10)).asks) == 2
    reader.forget()
    await reader.page(AskFilter(workspace_id="w"), 0, 10)
    assert stage.reads == 5
