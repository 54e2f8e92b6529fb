"""The writer: whatever waits is committed together, and nobody's fault is another's (DESIGN, second idea)."""

import asyncio
import time
import traceback
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from typing import Any

import pytest
from sqlalchemy import Connection
from tests.conditions import eventually
from tests.store.commands import answer, create, reject, text_question
from tests.store.databases import SECOND, START, Store
from tests.store.histories import History
from tests.store.stages import Stage, away

from askd.domain.asks import Ask, AskEvent, AskFilter, AskStatus
from askd.domain.errors import AskdError, Code
from askd.domain.sessions import Command, workspace_of
from askd.store import lanes
from askd.store import writer as module
from askd.store.batch import Applied, Outcome, apply
from askd.store.database import Database, LockedError
from askd.store.writer import Writer

EVERYTHING = AskFilter(workspace_id="w")


class Writing:
    """A writer on a stage, and what it published."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.history = History()
        self.published: list[AskEvent] = []
        self._now = START
        self.writer = Writer(stage, self._tick, self._publish)

    def _tick(self) -> int:
        self._now += SECOND
        return self._now

    def _publish(self, events: Sequence[AskEvent]) -> None:
        self.published += events

    async def ask(self, command: Command) -> Ask:
        outcome = await self.writer.submit(command)
        assert outcome.ask is not None
        return outcome.ask

    def submit(self, command: Command) -> "asyncio.Task[Outcome]":
        """Hand a command over, as a caller of its own."""
        return asyncio.create_task(self._outcome(command))

    async def _outcome(self, command: Command) -> Outcome:
        return await self.writer.submit(command)

    async def submit_all(self, commands: Sequence[Command]) -> "list[asyncio.Task[Outcome]]":
        """Hand commands over so that they wait when this returns."""
        tasks = [self.submit(command) for command in commands]
        await asyncio.sleep(0)
        return tasks


@pytest.fixture
async def writing(database: Database) -> AsyncIterator[Writing]:
    """A running writer."""
    running = Writing(Stage(database))
    yield running
    running.stage.failure = None
    await running.writer.close()


def unstorable() -> Command:
    """A command that no database can store."""
    return create(session="\ud800")


async def refusal(submitted: "asyncio.Task[Outcome]") -> AskdError:
    with pytest.raises(AskdError) as refused:
        await submitted
    return refused.value


async def told(writing: Writing, concluded: list[Outcome]) -> Outcome:
    """What a caller is told who makes of an outcome the outcome itself, and notes when."""

    def finish(outcome: Outcome) -> Outcome:
        concluded.append(outcome)
        return outcome

    return await writing.writer.enqueue("w", create, finish)


# --- batches ---


async def test_commands_that_come_during_a_commit_are_committed_together(writing: Writing) -> None:
    with writing.stage.holding_writes() as gate:
        first = writing.submit(create())
        await gate.reached()
        rest = await writing.submit_all([create() for _ in range(200)])
    asks = [outcome.ask for outcome in await asyncio.gather(first, *rest)]
    assert writing.stage.writes == 2
    assert [ask.created_revision for ask in asks if ask] == list(range(1, 202))  # in the order in which they came


async def test_a_batch_has_a_bound(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", 10)
    await asyncio.gather(*await writing.submit_all([create() for _ in range(25)]))
    assert writing.stage.writes == 3


async def test_callers_under_load_are_all_served_in_order(writing: Writing) -> None:
    async def call(number: int) -> list[int]:
        taken = []
        for _ in range(5):
            ask = await writing.ask(create(session=f"session {number}"))
            taken.append((await writing.ask(answer(ask))).resolved_revision or 0)
        return taken

    taken = await asyncio.gather(*map(call, range(40)))
    assert all(revisions == sorted(revisions) for revisions in taken)
    assert [event.revision for event in writing.published] == list(range(1, 401))
    assert writing.stage.writes < 100


async def test_events_are_published_before_a_caller_is_told(writing: Writing) -> None:
    ask = await writing.ask(create())
    assert [event.ask for event in writing.published] == [ask]


async def test_what_a_refused_command_did_not_do_is_not_published(writing: Writing) -> None:
    assert (await refusal(writing.submit(answer("que_unknown")))).code is Code.NOT_FOUND
    assert writing.published == []


# --- faults ---


async def test_one_bad_command_hurts_nobody_else(writing: Writing, store: Store) -> None:
    commands = [create() for _ in range(10)]
    tasks = await writing.submit_all([*commands[:5], bad := unstorable(), *commands[5:]])
    asks = [await task for number, task in enumerate(tasks) if number != 5]
    with pytest.raises(UnicodeEncodeError):
        await tasks[5]
    assert [ask.ask.id for ask in asks if ask.ask] == [getattr(command, "ask_id", None) for command in commands]
    assert len((await store.rows())["asks"]) == 10
    assert await store.get(getattr(bad, "ask_id", "")) is None
    assert [event.revision for event in writing.published] == list(range(1, 11))


async def test_a_database_that_is_away_is_unavailable_to_all_at_once(writing: Writing) -> None:
    writing.stage.failure = away()
    refusals = [await refusal(task) for task in await writing.submit_all([create() for _ in range(50)])]
    assert {error.code for error in refusals} == {Code.UNAVAILABLE}
    assert all(error.retry_after for error in refusals)
    assert writing.stage.writes == 2  # not one for each, which would keep the last of them waiting for long
    assert writing.writer.failing


async def test_a_database_that_is_back_is_used_at_once(writing: Writing) -> None:
    writing.stage.failure = away()
    await refusal(writing.submit(create()))
    writing.stage.failure = None
    ask = await writing.ask(create())
    assert ask.created_revision == 1
    assert not writing.writer.failing


async def test_a_caller_s_fault_is_not_the_database_s(writing: Writing) -> None:
    with pytest.raises(UnicodeEncodeError):
        await writing.submit(unstorable())
    assert not writing.writer.failing


async def test_the_log_of_a_fault_holds_nothing_that_users_wrote(
    writing: Writing, caplog: pytest.LogCaptureFixture
) -> None:
    writing.stage.failure = away()
    await refusal(writing.submit(create(text_question("SECRET QUESTION"))))
    assert "disk I/O error" in caplog.text
    assert "SECRET" not in caplog.text


async def test_what_callers_are_told_of_a_fault_holds_nothing_of_the_database(writing: Writing) -> None:
    writing.stage.failure = away()
    assert "SECRET" not in str(await refusal(writing.submit(create())))


# --- commits of which the answer was lost ---


async def test_a_commit_whose_answer_was_lost_succeeds_once(writing: Writing, store: Store) -> None:
    writing.stage.lost_answers = {1}
    ask = await writing.ask(create(turn="t"))
    assert len((await store.rows())["asks"]) == 1
    assert await store.get(ask.id) == ask
    assert writing.published == [event for event in writing.published if event.ask == ask] != []


async def test_every_command_of_a_lost_batch_succeeds_once(writing: Writing, store: Store) -> None:
    old = await writing.ask(create())
    writing.stage.lost_answers = {3}
    with writing.stage.holding_writes() as gate:
        first = writing.submit(create(workspace="v"))
        await gate.reached()
        new = create(request_id="r")
        tasks = await writing.submit_all([answer(old), new, reject(new), create(request_id="r"), create(turn="t")])
    await first
    asks = [outcome.ask for outcome in await asyncio.gather(*tasks)]
    assert len((await store.rows())["asks"]) == 4
    assert [ask.status for ask in asks if ask] == [
        AskStatus.ANSWERED, AskStatus.REJECTED, AskStatus.REJECTED, AskStatus.REJECTED, AskStatus.PENDING,
    ]  # fmt: skip
    history = History()
    history.take(event for event in writing.published if event.ask.workspace_id == "w")
    assert history.revision() == await store.revision() == 5


async def test_a_caller_that_cannot_be_told_finds_its_ask_when_it_tries_again(writing: Writing, store: Store) -> None:
    writing.stage.lost_answers = {1, 2}  # the batch and the retry of its only command
    command = create(request_id="r")
    assert (await refusal(writing.submit(command))).code is Code.UNAVAILABLE
    again = await writing.ask(create(request_id="r"))
    assert again.id == getattr(command, "ask_id", None)
    assert len((await store.rows())["asks"]) == 1


# --- callers that go away ---


async def test_a_caller_that_goes_away_before_its_batch_changes_nothing(writing: Writing, store: Store) -> None:
    with writing.stage.holding_writes() as gate:
        first = writing.submit(create())
        await gate.reached()
        gone, stays = await writing.submit_all([create(), create()])
        gone.cancel()
    await asyncio.gather(first, stays)
    assert gone.cancelled()
    assert len((await store.rows())["asks"]) == 2
    assert await store.revision() == 2


async def test_a_caller_that_goes_away_with_its_batch_under_way_leaves_it_whole(writing: Writing, store: Store) -> None:
    with writing.stage.holding_writes() as gate:
        gone = writing.submit(command := create(request_id="r"))
        await gate.reached()
        gone.cancel()
        await asyncio.wait([gone])
    again = await writing.ask(create(request_id="r"))
    assert again.id == getattr(command, "ask_id", None)
    assert [event.ask for event in writing.published] == [again]
    assert len((await store.rows())["asks"]) == 1


async def test_many_callers_that_went_away_keep_nobody_waiting(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch full of cancelled callers once sent the writer to sleep although others waited behind it."""
    monkeypatch.setattr(module, "BATCH", 3)
    with writing.stage.holding_writes() as gate:
        first = writing.submit(create())
        await gate.reached()
        tasks = await writing.submit_all([create() for _ in range(4)])
        for task in tasks[:3]:
            task.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(first, tasks[3])


# --- bounds and the end ---


async def test_a_full_queue_is_unavailable_and_those_in_it_are_served(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "QUEUE", 3)
    with writing.stage.holding_writes() as gate:
        first = writing.submit(create())
        await gate.reached()
        waiting = await writing.submit_all([create() for _ in range(3)])
        refused = await refusal(writing.submit(create()))
        assert refused.code is Code.UNAVAILABLE
        assert refused.retry_after
    await asyncio.gather(first, *waiting)
    await writing.ask(create())


# --- commands that are made when their turn comes ---


async def test_what_cannot_be_made_or_told_is_its_callers_alone(writing: Writing) -> None:
    def fail(_: object = None) -> Command:
        raise ZeroDivisionError

    with writing.stage.holding_writes() as gate:
        first = writing.submit(create())
        await gate.reached()
        unmade = writing.writer.enqueue("w", fail, lambda outcome: outcome)
        untold = writing.writer.enqueue("w", create, fail)
        good = writing.writer.enqueue("w", create, lambda outcome: outcome)
    results = await asyncio.gather(first, unmade, untold, good, return_exceptions=True)
    assert [isinstance(result, ZeroDivisionError) for result in results] == [False, True, True, False]
    assert len(writing.published) == 3  # one of which nobody could be told


async def test_commands_that_take_long_to_make_do_not_keep_the_event_loop(writing: Writing) -> None:
    made: list[float] = []

    def make() -> Command:
        time.sleep(lanes.SPAN)
        made.append(time.monotonic())
        return create()

    turns: list[float] = []

    async def turn() -> None:
        while len(made) < 5:
            turns.append(time.monotonic())
            await asyncio.sleep(0)

    waiting = [writing.writer.enqueue("w", make, lambda outcome: outcome) for _ in range(5)]
    await asyncio.gather(turn(), *waiting)
    between = [any(first < turned < second for turned in turns) for first, second in pairwise(made)]
    assert between == [True] * 4


async def serve_many(writing: Writing) -> int:
    """Have a batch written after which the next is gathered. Returns how many there were."""
    await asyncio.gather(*[writing.ask(create()) for _ in range(lanes.MANY)])
    return writing.stage.writes


async def test_what_callers_are_told_is_made_before_it_is_committed_and_told_after(writing: Writing) -> None:
    concluded: list[Outcome] = []
    with writing.stage.holding_what_was_written() as gate:
        telling = asyncio.create_task(told(writing, concluded))
        await gate.reached()
        assert len(concluded) == 1
        assert not telling.done()
    assert [await telling] == concluded


async def test_what_was_made_of_an_attempt_that_failed_is_told_to_nobody(writing: Writing) -> None:
    writing.stage.lost_answers.add(1)
    concluded: list[Outcome] = []
    outcome = await told(writing, concluded)
    assert len(concluded) == 2
    assert outcome is concluded[1]


async def test_where_many_commands_come_a_batch_waits_for_those_on_their_way(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "GATHERING", 1000.0)
    monkeypatch.setattr(lanes, "QUIET", 1000.0)
    writes = await serve_many(writing)

    async def come(turns: int) -> Ask:
        for _ in range(turns):
            await asyncio.sleep(0)
        return await writing.ask(create())

    async with asyncio.timeout(60):
        await asyncio.gather(*[come(number * 50) for number in range(lanes.MANY)])
    assert writing.stage.writes == writes + 1


async def test_a_batch_waits_no_longer_than_until_those_served_last_came_again(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "GATHERING", 1000.0)
    monkeypatch.setattr(lanes, "QUIET", 1000.0)
    async with asyncio.timeout(60):
        for _ in range(3):
            await serve_many(writing)


@pytest.mark.parametrize(("quiet", "gathering"), [(0.001, 1000.0), (1000.0, 0.001)])
async def test_a_batch_is_not_kept_by_callers_that_do_not_come_again(
    writing: Writing, monkeypatch: pytest.MonkeyPatch, quiet: float, gathering: float
) -> None:
    monkeypatch.setattr(lanes, "QUIET", quiet)
    monkeypatch.setattr(lanes, "GATHERING", gathering)
    await serve_many(writing)
    async with asyncio.timeout(60):
        await writing.ask(create())


async def test_after_waiting_in_vain_a_batch_does_not_wait_again(
    writing: Writing, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*[writing.ask(create()) for _ in range(2 * lanes.MANY)])
    monkeypatch.setattr(lanes, "GATHERING", 0.0)
    await serve_many(writing)  # by others than the callers before
    monkeypatch.setattr(lanes, "GATHERING", 1000.0)
    monkeypatch.setattr(lanes, "QUIET", 1000.0)
    async with asyncio.timeout(60):
        await writing.ask(create())


async def test_under_a_backlog_no_batch_waits(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BATCH", lanes.MANY)
    monkeypatch.setattr(lanes, "GATHERING", 1000.0)
    monkeypatch.setattr(lanes, "QUIET", 1000.0)
    async with asyncio.timeout(60):
        await asyncio.gather(*await writing.submit_all([create() for _ in range(5 * lanes.MANY)]))
    assert writing.stage.writes == 5


async def test_closing_does_not_wait_for_more(writing: Writing, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lanes, "GATHERING", 1000.0)
    monkeypatch.setattr(lanes, "QUIET", 1000.0)
    with writing.stage.holding_writes() as gate:
        served = await writing.submit_all([create() for _ in range(lanes.MANY)])
        await gate.reached()
        last = writing.submit(create())
        closing = asyncio.create_task(writing.writer.close())
        await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await asyncio.gather(*served, last, closing)


async def test_a_refusal_does_not_hold_the_batch_it_came_from(writing: Writing) -> None:
    ask = await writing.ask(create())
    await writing.ask(answer(ask))
    refused = await refusal(writing.submit(reject(ask)))
    names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(refused.__traceback__)]
    assert not {"_decide", "conclude", "apply"}.intersection(names)


async def test_closing_finishes_what_waits(writing: Writing, store: Store) -> None:
    with writing.stage.holding_writes() as gate:
        first = writing.submit(create())
        await gate.reached()
        waiting = await writing.submit_all([create() for _ in range(10)])
        closing = asyncio.create_task(writing.writer.close())
        await asyncio.sleep(0)
    await closing
    assert all(task.done() for task in waiting)
    await asyncio.gather(first, *waiting)
    assert len((await store.rows())["asks"]) == 11


async def test_a_closed_writer_is_unavailable(writing: Writing) -> None:
    await writing.writer.close()
    refused = await refusal(writing.submit(create()))
    assert refused.code is Code.UNAVAILABLE
    assert refused.retry_after


async def test_closing_does_not_hang_on_a_database_that_is_away(writing: Writing) -> None:
    writing.stage.failure = away()
    tasks = await writing.submit_all([create() for _ in range(3)])
    async with asyncio.timeout(5):
        await writing.writer.close()
    assert {(await refusal(task)).code for task in tasks} == {Code.UNAVAILABLE}


async def test_an_idle_writer_rests(writing: Writing) -> None:
    await writing.ask(create())
    writes = writing.stage.writes
    await eventually(lambda: not writing.writer.waiting)
    await asyncio.sleep(0)
    assert writing.stage.writes == writes


# --- workspaces that somebody keeps locked ---


class Locked(set[str]):
    """Workspaces that somebody keeps locked."""

    #: Whether they are free once a batch has found them locked.
    once = False


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Locked:
    """The workspaces that somebody keeps locked."""
    names = Locked()

    def apply_unless_locked(connection: Connection, commands: Sequence[Command], now: int, **how: Any) -> Applied:
        if names.intersection(map(workspace_of, commands)):
            if names.once:
                names.clear()
            raise LockedError("a row is locked")
        return apply(connection, commands, now, **how)

    monkeypatch.setattr(module, "apply", apply_unless_locked)
    monkeypatch.setattr(module, "find_locked", lambda _, ids: names & ids)
    monkeypatch.setattr(lanes, "PAUSE", 0.001)
    return names


async def test_a_locked_workspace_hinders_no_other(writing: Writing, locked: Locked) -> None:
    locked.add("w")
    stuck = await writing.submit_all([create() for _ in range(3)])
    free = await writing.submit_all([create(workspace="v"), create(workspace="u")])
    await asyncio.gather(*free)
    await writing.ask(create(workspace="v"))
    assert not any(task.done() for task in stuck)
    assert not writing.writer.failing
    locked.clear()
    await asyncio.gather(*stuck)


async def test_the_commands_of_a_workspace_that_was_locked_are_done_in_their_order(
    writing: Writing, locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were set aside were once overtaken by those that waited in the lane when the lock was gone."""
    monkeypatch.setattr(module, "BATCH", 3)
    monkeypatch.setattr(module, "find_locked", lambda _, ids: {"w"} & ids)
    locked.add("w")
    locked.once = True
    tasks = await writing.submit_all([create() for _ in range(8)])
    asks = [outcome.ask for outcome in await asyncio.gather(*tasks)]
    assert [ask.created_revision for ask in asks if ask] == list(range(1, 9))


async def test_a_workspace_that_stays_locked_is_unavailable(
    writing: Writing, locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "PATIENCE", 0.02)
    locked.add("w")
    for error in [await refusal(task) for task in await writing.submit_all([create(), create()])]:
        assert error.code is Code.UNAVAILABLE
        assert error.retry_after
    locked.clear()
    monkeypatch.undo()
    assert (await writing.ask(create())).created_revision == 1


async def test_not_too_many_commands_wait_for_a_locked_workspace(
    writing: Writing, locked: Locked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "ASIDE", 3)
    locked.add("w")
    tasks = await writing.submit_all([create() for _ in range(5)])
    await eventually(lambda: sum(task.done() for task in tasks) == 2)
    assert {(await refusal(task)).code for task in tasks if task.done()} == {Code.UNAVAILABLE}
    locked.clear()
    assert len(await asyncio.gather(*(task for task in tasks if not task.done()))) == 3


async def test_a_caller_that_leaves_a_locked_workspace_changes_nothing(
    writing: Writing, locked: Locked, store: Store
) -> None:
    locked.add("w")
    gone, stays = await writing.submit_all([create(), create()])
    await eventually(lambda: writing.stage.writes > 2)
    gone.cancel()
    tried = writing.stage.writes
    await eventually(lambda: writing.stage.writes > tried + 1)
    locked.clear()
    await stays
    assert len((await store.rows())["asks"]) == 1


async def test_closing_finishes_what_waits_for_a_locked_workspace(writing: Writing, locked: Locked) -> None:
    locked.add("w")
    tasks = await writing.submit_all([create() for _ in range(3)])
    await eventually(lambda: writing.stage.writes > 2)
    closing = asyncio.create_task(writing.writer.close())
    await asyncio.sleep(0)
    locked.clear()
    await closing
    assert [task.done() for task in tasks] == [True] * 3
    assert len(await asyncio.gather(*tasks)) == 3
