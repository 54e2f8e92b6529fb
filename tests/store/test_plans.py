"""How queries run: on the index that is meant for them, whatever is stored (DESIGN, first idea)."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, event
from tests.store.backends import Backend, Step
from tests.store.commands import ANN, answer, create
from tests.store.databases import Store

from askd.domain.asks import AskFilter, AskStatus, CancelAsks, CancelReason
from askd.domain.limits import GRANTS
from askd.domain.principals import Access, Caller, Grant, Role
from askd.domain.sessions import Command, EndSession, EndTurn, Session, Turn, TurnOutcome
from askd.store import keys as key_rows
from askd.store import statements, sweeps
from askd.store.batch import apply
from askd.store.database import Database
from askd.store.queries import load_asks, load_events, load_page, load_revision, load_snapshot, load_unjoined
from askd.store.tables import metadata

#: The index of a table's primary key.
KEY = "its key"


class Plans:
    """The plans of whatever statements run."""

    def __init__(self, backend: Backend, database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
        self._backend = backend
        self._database = database
        self._statements: list[tuple[str, Any]] = []
        for engine in backend.engines(database):
            event.listen(engine, "before_cursor_execute", self._hear)
        run = statements.run

        def hear_and_run(connection: Connection, text: str, parameters: Any, **options: Any) -> Any:
            self._note(text, parameters)
            return run(connection, text, parameters, **options)

        monkeypatch.setattr(statements, "run", hear_and_run)

    def _hear(self, _: object, __: object, statement: str, parameters: Any, ___: object, many: bool) -> None:
        self._note(statement, parameters[0] if many else parameters)

    def _note(self, statement: str, parameters: Any) -> None:
        if statement.startswith(("SELECT", "UPDATE", "DELETE", "WITH")):
            self._statements.append((statement, parameters))

    async def of_read(self, transaction: Callable[[Connection], object]) -> list[Step]:
        """The plans of a read's statements."""
        self._statements.clear()
        await self._database.read(transaction)
        return await self._explain()

    async def of_write(self, transaction: Callable[[Connection], object]) -> list[Step]:
        """The plans of a write's statements."""
        self._statements.clear()
        await self._database.write(transaction)
        return await self._explain()

    async def _explain(self) -> list[Step]:
        heard = list(self._statements)
        return await self._database.read(
            lambda connection: [self._backend.plan(connection, *statement) for statement in heard]
        )


@pytest.fixture
def plans(backend: Backend, database: Database, monkeypatch: pytest.MonkeyPatch) -> Plans:
    """The plans of the database, where it tells them."""
    if not backend.tells_plans:
        pytest.skip("its plans depend on what is stored")
    return Plans(backend, database, monkeypatch)


_SEARCH = re.compile(r"SEARCH (\w+) USING (?:COVERING )?INDEX (\w+)")
_SCAN = re.compile(rf"SCAN ({'|'.join(metadata.tables)})\b")


def used(plans: list[Step]) -> set[tuple[str, str]]:
    """The tables that are searched and the indexes that serve; fails where a table is read from end to end."""
    found = set()
    for step in (step for plan in plans for step in plan.walk()[1:]):
        if match := _SEARCH.match(step.text):
            table, index = match.groups()
            found.add((table, KEY if index.startswith("sqlite_autoindex") else index))
        elif match := _SCAN.match(step.text):
            pytest.fail(f"reads all of {match[1]}")
    return found


def sorted_tables(plans: list[Step]) -> set[tuple[str, str]]:
    """What is put in order after it was found, instead of being found in order."""
    return {
        found
        for plan in plans
        for step in plan.walk()
        if any("TEMP B-TREE" in inner.text for inner in step.steps)
        for found in used([Step("", [Step(inner.text) for inner in step.steps])])
    }


W = AskFilter(workspace_id="w")
S = AskFilter(workspace_id="w", session_id="s")
T = AskFilter(workspace_id="w", session_id="s", turn_id="t")
PENDING = frozenset({AskStatus.PENDING})
SOME = frozenset({AskStatus.PENDING, AskStatus.REJECTED})
SCOPE = frozenset({"s", "r"})
MANY = frozenset({"s", *(f"session {number}" for number in range(1, GRANTS))})


def narrowed(query: AskFilter, statuses: frozenset[AskStatus], scope: frozenset[str] | None = None) -> AskFilter:
    return AskFilter(
        workspace_id=query.workspace_id,
        session_id=query.session_id,
        turn_id=query.turn_id,
        statuses=statuses,
        scope=scope,
    )


LISTS = {
    "a workspace": (W, "asks_created"),
    "a workspace in one state": (narrowed(W, PENDING), "asks_status"),
    "a workspace in some states": (narrowed(W, SOME), "asks_status"),
    "a session": (S, "asks_session"),
    "a session in one state": (narrowed(S, PENDING), "asks_session"),
    "a session in some states": (narrowed(S, SOME), "asks_session"),
    "a turn": (T, "asks_turn"),
    "a turn in one state": (narrowed(T, PENDING), "asks_turn"),
    "a turn in some states": (narrowed(T, SOME), "asks_turn"),
    "the sessions that a caller sees": (narrowed(W, frozenset(), SCOPE), "asks_session"),
    "the sessions that a caller sees in some states": (narrowed(W, SOME, SCOPE), "asks_session"),
    "a session that a caller sees": (narrowed(S, PENDING, SCOPE), "asks_session"),
    "as many sessions as a caller may have": (narrowed(W, frozenset(), MANY), "asks_session"),
    "a turn that a caller sees": (narrowed(T, PENDING, SCOPE), "asks_turn"),
}


async def stored(store: Store) -> None:
    """An ask with an answer and one without, so that every query comes to its end."""
    ask, *_ = await store.asks(create(turn="t", request_id="r"), create(turn="t"))
    await store.ask(answer(ask))


@pytest.mark.parametrize(("query", "index"), list(LISTS.values()), ids=list(LISTS))
async def test_a_list_is_ranges_of_an_index_in_order(store: Store, plans: Plans, query: AskFilter, index: str) -> None:
    await stored(store)
    found = await plans.of_read(partial(load_page, query=query, after=0, limit=10))
    assert used(found) == {("asks", index), ("payloads", KEY)}
    assert not sorted_tables(found)


SNAPSHOTS = {name: case for name, case in LISTS.items() if "state" not in name}


@pytest.mark.parametrize(("query", "index"), list(SNAPSHOTS.values()), ids=list(SNAPSHOTS))
async def test_a_snapshot_is_what_is_pending_and_what_was_resolved_since(
    store: Store, plans: Plans, query: AskFilter, index: str
) -> None:
    await stored(store)
    pending = "asks_status" if index == "asks_created" else index
    found = await plans.of_read(partial(load_snapshot, query=query, revision=2, after=0, limit=10))
    assert used(found) == {("asks", pending), ("asks", "asks_resolved"), ("payloads", KEY)}
    assert sorted_tables(found) == {("asks", "asks_resolved")}  # bounded by what happens while a snapshot is read


@pytest.mark.parametrize("query", [query for query, _ in LISTS.values()], ids=list(LISTS))
async def test_events_are_two_ranges_of_revisions(store: Store, plans: Plans, query: AskFilter) -> None:
    await stored(store)
    found = await plans.of_read(partial(load_events, query=query, after=0))
    assert used(found) >= {("asks", "asks_created"), ("asks", "asks_resolved"), ("workspaces", KEY)}
    assert used(found) <= {
        ("asks", "asks_created"), ("asks", "asks_resolved"), ("workspaces", KEY), ("payloads", KEY),
    }  # fmt: skip
    assert not sorted_tables(found)


async def test_points_are_found_by_their_keys(store: Store, plans: Plans) -> None:
    await stored(store)
    assert used(await plans.of_read(lambda connection: load_asks(connection, ["a", "b"]))) == {("asks", KEY)}
    assert used(await plans.of_read(lambda connection: load_revision(connection, "w"))) == {("workspaces", KEY)}


ACCESS: Access = Caller(principal=ANN, grants=frozenset({Grant(role=Role.ADMIN, workspace_id="w")})).enter("w")


async def test_a_batch_finds_all_it_touches_by_index(store: Store, plans: Plans) -> None:
    await stored(store)
    first = create(turn="u", request_id="r2")
    commands: list[Command] = [
        create(turn="t", request_id="r"),
        first,
        answer(first),
        CancelAsks(workspace_id="w", id="c", ask_ids=["que_1"], reason=CancelReason.EXPIRED, by=None),
    ]
    found = await plans.of_write(partial(apply, commands=commands, now=store.tick(), uncertain=True))
    assert used(found) == {
        ("workspaces", KEY), ("asks", KEY), ("asks", "asks_request"), ("payloads", KEY), ("sessions", KEY),
        ("turns", KEY),
    }  # fmt: skip
    assert not sorted_tables(found)


async def test_ends_find_what_is_pending_by_index(store: Store, plans: Plans) -> None:
    await stored(store)
    commands: list[Command] = [
        EndTurn(access=ACCESS, session_id="s", turn_id="t", outcome=TurnOutcome.COMPLETED),
        EndSession(access=ACCESS, session_id="s"),
    ]
    found = await plans.of_write(partial(apply, commands=commands, now=store.tick()))
    assert used(found) >= {("asks", "asks_turn"), ("asks", "asks_session")}
    assert not sorted_tables(found)


TURN = Turn(workspace_id="w", session_id="s", turn_id="t")
SESSION = Session(workspace_id="w", session_id="s")


async def test_what_the_sweeper_looks_for_is_found_by_index(store: Store, plans: Plans) -> None:
    await stored(store)
    for load, indexes in (
        (lambda connection: sweeps.load_due(connection, 1), {("asks", "asks_expiry")}),
        (sweeps.load_ends, {("sessions", "sessions_ending"), ("turns", "turns_ending")}),
        (lambda connection: sweeps.load_left(connection, TURN), {("asks", "asks_turn")}),
        (lambda connection: sweeps.load_left(connection, SESSION), {("asks", "asks_session")}),
        (lambda connection: load_unjoined(connection, TURN), {("asks", "asks_turn")}),
    ):
        found = await plans.of_read(load)
        assert used(found) == indexes
        assert not sorted_tables(found)


async def test_what_the_sweeper_writes_is_found_by_index(store: Store, plans: Plans) -> None:
    await stored(store)
    found = await plans.of_write(lambda connection: sweeps.erase_payloads(connection, store.now + 1))
    assert used(found) == {("asks", "asks_retention"), ("asks", KEY), ("payloads", KEY)}
    assert not sorted_tables(found)
    found = await plans.of_write(lambda connection: sweeps.finish_end(connection, TURN))
    found += await plans.of_write(lambda connection: sweeps.finish_end(connection, SESSION))
    assert used(found) == {("turns", KEY), ("sessions", KEY)}


async def test_keys_and_grants_are_found_by_their_keys(plans: Plans) -> None:
    found = await plans.of_read(lambda connection: key_rows.load(connection, "key_1"))
    found += await plans.of_read(lambda connection: key_rows.load_grants(connection, [ANN]))
    found += await plans.of_write(lambda connection: key_rows.revoke(connection, "key_1", 1))
    assert used(found) == {("keys", KEY), ("grants", KEY)}
