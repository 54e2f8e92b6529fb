"""What time does to asks, and what a crash left to do (CONTRACT section 4)."""

import asyncio
import math
from collections.abc import AsyncIterator
from contextvars import copy_context
from functools import partial

import pytest
from tests.conditions import eventually
from tests.service.services import DAY, Service, Watcher
from tests.store.commands import access, answer, create, reject, text_question, withdraw
from tests.store.databases import SECOND, START, Store
from tests.store.histories import ids
from tests.store.stages import Stage, away

from askd.domain.asks import AskFilter, AskStatus, CancelReason
from askd.domain.errors import AskdError, Code
from askd.domain.principals import Role
from askd.domain.sessions import EndSession, EndTurn, TurnOutcome
from askd.service.asks import AskReference
from askd.service.sweeper import PERIOD
from askd.store import sweeps
from askd.store.database import Database, deadline

W = AskFilter(workspace_id="w")


# --- expiry ---


async def test_asks_past_their_time_are_cancelled_as_expired(service: Service) -> None:
    due, later, never, answered = await service.do(
        create(expires_in=SECOND), create(expires_in=3 * SECOND), create(), create(expires_in=SECOND)
    )
    await service.do(answer(answered))
    watcher = Watcher(service, W)
    await watcher.synced()
    service.clock.advance(2)
    await service.sweeper.run_once()
    await watcher.reached(6)
    (expired,) = [event.ask for event in service.history.events(W, 5)]
    assert expired.id == due.id
    assert (expired.status, expired.cancel_reason) == (AskStatus.CANCELLED, CancelReason.EXPIRED)
    assert (expired.resolved_at, expired.expires_at) == (START + 2 * SECOND, START + SECOND)
    assert expired.resolved_by is None
    assert ids(service.history.pending(W)) == [later.id, never.id]
    assert PERIOD < 2


async def test_an_expiry_ends_the_waits_for_the_ask(service: Service) -> None:
    ask = await service.ask(create(expires_in=SECOND))
    wait = asyncio.create_task(service.asks.wait(access(), AskReference(ask_id=ask.id), None))
    await asyncio.sleep(0)
    service.clock.advance(1)
    await service.sweeper.run_once()
    assert (await wait).cancel_reason is CancelReason.EXPIRED


async def test_a_command_that_comes_after_the_time_and_before_the_sweep_finds_the_ask_expired(
    service: Service,
) -> None:
    asks = await service.do(*(create(expires_in=SECOND) for _ in range(3)))
    service.clock.advance(1)
    for command in (answer(asks[0]), reject(asks[1]), withdraw(asks[2])):
        with pytest.raises(AskdError) as refused:
            await service.ask(command)
        assert refused.value.code is Code.ASK_ALREADY_RESOLVED
    await service.sweeper.run_once()
    assert [ask.cancel_reason for ask in service.history.asks()] == [CancelReason.EXPIRED] * 3
    assert service.history.revision() == 6


async def test_asks_that_came_due_while_no_server_ran_are_cancelled_by_the_next(service: Service, store: Store) -> None:
    await store.asks(*(create(workspace="wv"[n % 2], expires_in=SECOND) for n in range(5)))
    service.clock.advance(100)
    await service.sweeper.run_once()
    assert await store.read(lambda connection: sweeps.load_due(connection, service.clock.now)) == {}
    assert (await store.revision("w"), await store.revision("v")) == (6, 4)


async def test_what_is_being_finished_outlives_the_deadline_of_the_call_that_began_it(service: Service) -> None:
    """On PostgreSQL its reads were cut short where the call's deadline passed, for everybody who waited for it."""
    seen = []

    async def look() -> None:
        seen.append(deadline.get())

    call = copy_context()
    call.run(deadline.set, 0.0)
    await call.run(service.sweeper._start, ("w", "s"), look)
    assert seen == [math.inf]


async def test_many_due_asks_are_cancelled_in_chunks(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CHUNK", 3)
    await service.do(*(create(expires_in=SECOND) for _ in range(10)))
    writes = service.stage.writes
    service.clock.advance(1)
    await service.sweeper.run_once()
    assert service.history.pending(W) == []
    assert service.stage.writes - writes >= 4


# --- ends ---


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (TurnOutcome.CANCELLED, CancelReason.TURN_ENDED),
        (TurnOutcome.INTERRUPTED, CancelReason.INTERRUPTED),
        (TurnOutcome.FAILED, CancelReason.TURN_ENDED),
    ],
)
async def test_ending_a_turn_cancels_its_pending_asks(
    service: Service, outcome: TurnOutcome, reason: CancelReason
) -> None:
    asks = await service.do(create(turn="t"), create(turn="t"), create(turn="u"), create(session="r", turn="t"))
    await service.do(answer(asks[0]))
    ended = await service.sessions.end_turn(access(), "s", "t", outcome)
    assert (ended.outcome, list(ended.unjoined), ended.unjoined_count) == (outcome, [], 0)
    (event,) = service.history.events(W, 5)
    assert (event.ask.id, event.ask.cancel_reason, event.ask.resolved_by) == (asks[1].id, reason, access().principal)
    assert ids(service.history.pending(W)) == ids(asks[2:])


async def test_completing_a_turn_while_asks_are_pending_fails_it_and_names_them_again_and_again(
    service: Service,
) -> None:
    asks = await service.do(*(create(turn="t") for _ in range(3)))
    await service.do(answer(asks[1]))
    for _ in range(3):
        ended = await service.sessions.end_turn(access(), "s", "t", TurnOutcome.COMPLETED)
        assert ended.outcome is TurnOutcome.FAILED
        assert (list(ended.unjoined), ended.unjoined_count) == ([asks[0].id, asks[2].id], 2)
    assert service.history.pending(W) == []


async def test_ending_a_session_cancels_its_pending_asks_in_every_turn(service: Service) -> None:
    asks = await service.do(create(turn="t"), create(), create(session="r"))
    await service.sessions.end_session(access(), "s")
    cancelled = [event.ask for event in service.history.events(W, 3)]
    assert ids(cancelled) == ids(asks[:2])
    assert {ask.cancel_reason for ask in cancelled} == {CancelReason.SESSION_ENDED}
    assert ids(service.history.pending(W)) == [asks[2].id]
    for _ in range(2):
        await service.sessions.end_session(access(), "s")
    assert service.history.revision() == 5


async def test_an_end_with_many_asks_cancels_in_chunks(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CHUNK", 7)
    await service.do(*(create(turn="t") for _ in range(30)))
    ended = await service.sessions.end_turn(access(), "s", "t", TurnOutcome.COMPLETED)
    assert ended.unjoined_count == len(ended.unjoined) == 30
    assert service.history.pending(W) == []
    assert service.history.revision() == 60


@pytest.mark.parametrize("way", ["a turn", "a session"])
async def test_what_an_end_had_yet_to_cancel_at_a_crash_the_next_server_cancels(
    service: Service, store: Store, way: str
) -> None:
    await store.asks(*(create(turn="t") for _ in range(3)))
    turn = EndTurn(access=access(), session_id="s", turn_id="t", outcome=TurnOutcome.INTERRUPTED)
    await store.apply(turn if way == "a turn" else EndSession(access=access(), session_id="s"))
    await service.sweeper.run_once()
    assert await store.revision() == 6
    assert await store.read(sweeps.load_ends) == []
    revision = await store.revision()
    await service.sweeper.run_once()
    assert await store.revision() == revision


async def test_a_caller_that_leaves_leaves_the_end_to_go_on(service: Service, store: Store) -> None:
    await service.do(*(create(turn="t") for _ in range(3)))
    with service.stage.holding_reads() as gate:
        leaving = asyncio.create_task(service.sessions.end_turn(access(), "s", "t", TurnOutcome.COMPLETED))
        await gate.reached()
        leaving.cancel()
        await asyncio.wait([leaving])
    await service.sweeper.run_once()
    assert service.history.pending(W) == []
    assert await store.read(sweeps.load_ends) == []


async def test_a_sweep_that_is_stopped_stops_no_end_that_a_caller_waits_for(service: Service) -> None:
    await service.do(*(create(turn="t") for _ in range(3)))
    with service.stage.holding_reads() as gate:
        ending = asyncio.create_task(service.sessions.end_turn(access(), "s", "t", TurnOutcome.COMPLETED))
        await gate.reached()
    with service.stage.holding_writes() as gate:
        await gate.reached()  # the end cancels its asks
        sweep = asyncio.create_task(service.sweeper.run_once())
        reads = service.stage.reads
        await eventually(lambda: service.stage.reads >= reads + 2)
        for _ in range(5):
            await asyncio.sleep(0)
        sweep.cancel()
        await asyncio.wait([sweep])
    assert (await ending).unjoined_count == 3
    assert service.history.pending(W) == []


async def test_an_end_that_the_database_stopped_is_finished_by_the_next_sweep(service: Service, store: Store) -> None:
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    await service.do(*(create(turn="t") for _ in range(3)))
    with service.stage.holding_reads() as gate:
        ending = asyncio.create_task(service.sessions.end_turn(access(), "s", "t", TurnOutcome.COMPLETED))
        await gate.reached()
        service.stage.failure = away()
    with pytest.raises(AskdError) as refused:
        await ending
    assert refused.value.code is Code.UNAVAILABLE
    service.stage.failure = None
    await service.sweeper.run_once()
    assert service.history.pending(W) == []
    ended = await service.sessions.end_turn(access(), "s", "t", TurnOutcome.COMPLETED)
    assert ended.unjoined_count == 3
    assert heard == []


async def test_opening_and_ending_need_the_role_asker_there(service: Service) -> None:
    viewer = access(Role.VIEWER)
    for call in (
        service.sessions.open_session(viewer, "s", None),
        service.sessions.end_session(viewer, "s"),
        service.sessions.end_turn(viewer, "s", "t", TurnOutcome.COMPLETED),
    ):
        with pytest.raises(AskdError) as refused:
            await call
        assert refused.value.code is Code.PERMISSION_DENIED


# --- retention ---


async def test_payloads_are_erased_after_their_time_and_not_before(service: Service, store: Store) -> None:
    asks = await service.do(create(text_question("SECRET")), create(text_question("SECRET")))
    await service.do(answer(asks[0]))
    service.clock.advance(DAY / 1e6)
    await service.sweeper.run_once()
    found = await store.get(asks[0].id)
    assert found is not None
    assert not found.payload_expired
    service.clock.advance(0.000001)
    await service.sweeper.run_once()
    expired, pending = await store.get(asks[0].id), await store.get(asks[1].id)
    assert expired is not None
    assert (expired.payload_expired, expired.questions, expired.answers) == (True, (), ())
    assert pending == asks[1]


async def test_a_retention_of_0_keeps_payloads_for_ever(service: Service, store: Store) -> None:
    ask = await service.ask(create())
    answered = await service.ask(answer(ask))
    service.sweeper._retention = 0
    service.clock.advance(100 * DAY / 1e6)
    await service.sweeper.run_once()
    assert await store.get(ask.id) == answered


# --- going on ---


@pytest.fixture
async def running(database: Database, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """A service whose sweeper sweeps all the time."""
    monkeypatch.setattr("askd.service.sweeper.PERIOD", 0.001)
    service = Service(database)
    sweeping = asyncio.create_task(service.sweeper.run())
    yield service
    sweeping.cancel()
    await asyncio.wait([sweeping])
    await service.close()


def reached(stage: Stage, reads: int) -> bool:
    return stage.reads >= reads


async def test_a_sweep_that_fails_is_not_the_last(running: Service, caplog: pytest.LogCaptureFixture) -> None:
    ask = await running.ask(create(expires_in=SECOND))
    wait = asyncio.create_task(running.asks.wait(access(), AskReference(ask_id=ask.id), None))
    await asyncio.sleep(0)
    await running.asleep()
    for failure in (away(), ZeroDivisionError("a bug")):
        running.stage.failure = failure
        enough = running.stage.reads + 3
        await eventually(partial(reached, running.stage, enough))
    running.clock.advance(2)
    running.stage.failure = None
    async with asyncio.timeout(5):
        assert (await wait).cancel_reason is CancelReason.EXPIRED
    assert "SECRET" not in caplog.text
