"""What the writer remembers: never anything but what the database has."""

from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import Connection, select
from tests.store.commands import answer, create
from tests.store.databases import START, Store
from tests.store.histories import Workload
from tests.store.stages import Stage
from tests.store.test_sessions import end_session, end_turn, open_session, stored_sessions, stored_turn

from askd.domain.asks import AskEvent, AskStatus, CancelAsks, CancelReason
from askd.domain.errors import AskdError
from askd.domain.sessions import Command, Session, Turn, TurnOutcome
from askd.store import memory as module
from askd.store.cache import AskCache
from askd.store.database import Database, Transaction
from askd.store.memory import Memory
from askd.store.queries import load_asks
from askd.store.tables import workspaces
from askd.store.writer import Writer

OPEN = Session(workspace_id="w", session_id="s")
KEY = ("w", "s")


def begun(memory: Memory, batch: object, revision: int) -> None:
    memory.begin(batch)
    memory.revisions["w"] = revision


def test_what_a_batch_left_is_there_for_the_next_once_it_is_committed() -> None:
    memory = Memory()
    begun(memory, first := object(), 1)
    memory.confirm(first)
    memory.begin(object())
    assert memory.revisions == {"w": 1}


def test_what_a_batch_left_is_gone_where_its_commit_is_not_confirmed() -> None:
    memory = Memory()
    begun(memory, first := object(), 1)
    begun(memory, second := object(), 2)
    memory.confirm(first)  # late
    memory.begin(third := object())
    assert memory.revisions == {}
    memory.confirm(second)
    memory.confirm(third)
    memory.revisions["w"] = 3
    memory.begin(object())
    assert memory.revisions == {"w": 3}


@pytest.mark.parametrize("ended", [OPEN, Turn(workspace_id="w", session_id="s", turn_id="t")])
def test_what_has_ended_is_not_remembered(ended: Session | Turn) -> None:
    memory = Memory()
    memory.keep_session(KEY, OPEN)
    memory.keep_session(KEY, Session(workspace_id="w", session_id="s", ended_at=1))
    key = (*KEY, "t")
    memory.keep_turn(key, Turn(workspace_id="w", session_id="s", turn_id="t"))
    memory.keep_turn(key, Turn(workspace_id="w", session_id="s", turn_id="t", outcome=TurnOutcome.FAILED))
    assert not memory.sessions
    assert not memory.turns


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 10)
    memory = Memory()
    for number in range(50):
        memory.begin(number)
        memory.keep_session(("w", str(number)), OPEN)
        memory.confirm(number)
    assert 0 < len(memory.sessions) <= 11


class Remembering:
    """A writer with a memory and a cache, on a database that fails now and then."""

    def __init__(self, database: Database, seed: int) -> None:
        self.stage = Stage(database)
        self.cache = AskCache()
        self.load = Workload(seed)
        self.writer = Writer(self.stage, lambda: START, self._publish, self.cache)
        self.memory = self.writer._memory or Memory()
        #: Batches that found something in memory.
        self.served = 0

    def _publish(self, events: Sequence[AskEvent]) -> None:
        # An uncertain attempt tells again what an earlier one did.
        known = self.load.history.revision
        self.load.history.take(event for event in events if event.revision > known(event.ask.workspace_id))

    async def run(self) -> None:
        """Hand over some commands, and let fail what fails."""
        chance = self.load.dice
        attempt = self.stage.writes + 1
        if chance.random() < 0.2:
            chance.choice([self.stage.failed_writes, self.stage.lost_answers]).add(attempt)
        self.served += bool(self.memory.revisions)
        waiting = [self.writer.submit(self._command()) for _ in range(chance.randint(1, 6))]
        for each in waiting:
            try:
                await each
            except AskdError:
                continue

    def _command(self) -> Command:
        chance = self.load.dice
        session, turn = chance.choice(["s", "r"]), chance.choice(["t", "u", "v"])
        match chance.randrange(20):
            case 0:
                return end_turn(turn, chance.choice(list(TurnOutcome)), session)
            case 1:
                return open_session(session)
            case 2 if chance.random() < 0.2:
                return end_session(session)
            case 3 if asks := self.load.history.asks()[-5:]:
                ids = [ask.id for ask in asks]
                return CancelAsks(workspace_id="w", id=f"c{chance.random()}", ask_ids=ids, reason=REASON, by=None)
        return self.load.command()

    async def check(self, store: Store) -> None:
        """Compare what is remembered with what is stored."""
        if self.memory._unconfirmed is not None:
            return  # then the next batch forgets it
        known = dict(self.cache._asks)
        found = await store.read(lambda connection: load_asks(connection, known))
        assert known == found
        assert await store.read(_differences(self.memory)) == []


REASON = CancelReason.TURN_ENDED


def _differences(memory: Memory) -> Transaction[list[object]]:
    def differences(connection: Connection) -> list[object]:
        revisions = {row.id: row.revision for row in connection.execute(select(workspaces))}
        sessions = {(each.workspace_id, each.session_id): each for each in stored_sessions(connection)}
        turns = {(each.workspace_id, each.session_id, each.turn_id): each for each in stored_turn(connection)}
        return [
            each
            for remembered, stored in (
                (memory.revisions, revisions),
                (memory.sessions, sessions),
                (memory.turns, turns),
            )
            for each in remembered.items() - stored.items()
        ]

    return differences


@pytest.fixture(params=range(6))
async def remembering(request: pytest.FixtureRequest, database: Database) -> AsyncIterator[Remembering]:
    running = Remembering(database, request.param)
    yield running
    await running.writer.close()


async def test_memory_and_cache_have_what_the_database_has_whatever_fails(
    remembering: Remembering, store: Store
) -> None:
    for _ in range(60):
        await remembering.run()
        await remembering.check(store)
    assert remembering.served > 30


async def test_a_batch_after_one_whose_answer_was_lost_goes_on_from_its_revision(
    database: Database, store: Store
) -> None:
    running = Remembering(database, 0)
    try:
        first = await running.writer.submit(create())
        running.stage.lost_answers.add(2)
        answered = await running.writer.submit(answer(first.ask or pytest.fail("no ask")))
        third = await running.writer.submit(create())
    finally:
        await running.writer.close()
    assert answered.ask is not None
    assert answered.ask.status is AskStatus.ANSWERED
    assert third.ask is not None
    assert (answered.ask.resolved_revision, third.ask.created_revision) == (2, 3)
    assert await store.revision() == 3
