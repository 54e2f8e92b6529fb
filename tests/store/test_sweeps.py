"""What the sweeper looks for, and what it erases (CONTRACT section 4)."""

from functools import partial

import pytest
from tests.store.commands import access, answer, choice_question, choosing, create, reject, text_question
from tests.store.databases import SECOND, Store
from tests.store.histories import ids

from askd.domain.asks import Ask, AskFilter, CancelAsks
from askd.domain.errors import Code
from askd.domain.sessions import Command, EndSession, EndTurn, TurnOutcome
from askd.store import sweeps
from askd.store.batch import Outcome
from askd.store.queries import load_events, load_page

EVERYTHING = AskFilter(workspace_id="w")


async def erase(store: Store, before: int) -> set[str]:
    """Erase a chunk of payloads of asks that were resolved before a time."""
    return await store.database.write(partial(sweeps.erase_payloads, resolved_before=before))


# --- asks that are due ---


async def test_asks_past_their_time_are_due(store: Store) -> None:
    asks = await store.asks(create(expires_in=2), create(expires_in=3), create(expires_in=1), create())
    await store.ask(answer(await store.ask(create(expires_in=10 * SECOND))))
    now = asks[0].created_at + 2
    found = await store.read(partial(sweeps.load_due, now=now))
    assert found == {"w": [asks[2].id, asks[0].id]}  # the longest past first


async def test_what_is_due_is_found_in_chunks_over_workspaces(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CHUNK", 3)
    asks = await store.asks(*(create(workspace="wv"[number % 2], expires_in=1 + number) for number in range(5)))
    found = await store.read(partial(sweeps.load_due, now=store.now + 10))
    assert found == {"w": [asks[0].id, asks[2].id], "v": [asks[1].id]}


async def test_a_chunk_is_bounded_in_bytes_and_never_empty(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    large = text_question("x" * 10_000)
    asks = await store.asks(*(create(large, expires_in=1 + number) for number in range(3)))
    for limit, count in ((25_000, 2), (5, 1)):
        monkeypatch.setattr(sweeps, "CHUNK_BYTES", limit)
        assert await store.read(partial(sweeps.load_due, now=store.now + 10)) == {"w": ids(asks[:count])}


# --- ends that are not finished ---


async def test_ends_that_left_asks_are_found_until_they_are_finished(store: Store) -> None:
    asks = await store.asks(create(turn="t"), create(turn="t"), create(turn="u"), create(session="r"))
    commands: list[Command] = [
        EndTurn(access=access(), session_id="s", turn_id="t", outcome=TurnOutcome.COMPLETED),
        EndTurn(access=access(), session_id="s", turn_id="nobody's", outcome=TurnOutcome.COMPLETED),
        EndSession(access=access(), session_id="r"),
    ]
    outcomes = (await store.apply(*commands)).outcomes
    ended = [outcome.end for outcome in outcomes if isinstance(outcome, Outcome)]
    session, turn = await store.read(sweeps.load_ends)
    assert [turn, session] == [ended[0], ended[2]]
    assert await store.read(partial(sweeps.load_left, end=turn)) == ids(asks[:2])
    assert await store.read(partial(sweeps.load_left, end=session)) == [asks[3].id]
    await store.apply(CancelAsks(workspace_id="w", id="c", ask_ids=[asks[0].id], reason=turn.cancel_reason, by=None))
    assert await store.read(partial(sweeps.load_left, end=turn)) == [asks[1].id]
    await store.database.write(partial(sweeps.finish_end, end=turn))
    assert await store.read(sweeps.load_ends) == [session]
    await store.database.write(partial(sweeps.finish_end, end=session))
    assert await store.read(sweeps.load_ends) == []


# --- payloads past their time ---


async def resolved(store: Store) -> list[Ask]:
    """Asks that were resolved a second apart, and one that is pending."""
    asks = await store.asks(*(create(choice_question(custom=True), request_id=f"r{n}") for n in range(4)))
    return [
        await store.ask(answer(asks[0], choosing("a"), answer_id="a")),
        await store.ask(reject(asks[1], "no time")),
        await store.ask(answer(asks[2], choosing(custom="or else"))),
        asks[3],
    ]


async def test_payloads_of_asks_resolved_before_a_time_are_erased(store: Store) -> None:
    asks = await resolved(store)
    assert await erase(store, asks[2].resolved_at or 0) == {"w"}
    found = [await store.get(ask.id) for ask in asks]
    assert [ask.payload_expired for ask in found if ask] == [True, True, False, False]
    assert found[2:] == asks[2:]
    for before, after in zip(asks[:2], found[:2], strict=True):
        assert after is not None
        assert (after.questions, after.answers, after.reject_reason) == ((), (), None)
        kept = ("id", "session_id", "status", "created_at", "resolved_at", "resolved_by", "resolved_revision", "tool")
        assert [getattr(after, name) for name in kept] == [getattr(before, name) for name in kept]
    assert len((await store.rows())["payloads"]) == 3  # one ask's questions and answers, another's questions


async def test_a_pending_ask_never_loses_its_payload(store: Store) -> None:
    ask = await store.ask(create(text_question("Why?")))
    assert await erase(store, store.now + 10**15) == set()
    assert await store.get(ask.id) == ask


async def test_payloads_are_erased_once_and_in_chunks(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeps, "CHUNK", 2)
    asks = await store.asks(*(create(workspace=name) for name in "wvw"))
    for ask in asks:
        await store.ask(answer(ask))
    assert [await erase(store, store.now + 1) for _ in range(3)] == [{"w", "v"}, {"w"}, set()]


async def test_erased_payloads_are_erased_in_lists_and_events_too(store: Store) -> None:
    asks = await resolved(store)
    await erase(store, store.now + 1)
    page = await store.read(partial(load_page, query=EVERYTHING, after=0, limit=10))
    events = (await store.read(partial(load_events, query=EVERYTHING, after=0))).events
    assert [ask.payload_expired for ask in page.asks] == [True, True, True, False]
    assert [event.ask.payload_expired for event in events] == [True, True, True, False, True, True, True]
    assert [ask.questions for ask in page.asks] == [(), (), (), asks[3].questions]


async def test_once_the_payload_is_erased_the_answer_id_alone_decides(store: Store) -> None:
    asks = await resolved(store)
    await erase(store, store.now + 1)
    receipt = await store.ask(answer(asks[0], choosing("b"), answer_id="a"))
    assert (receipt.id, receipt.answers, receipt.payload_expired) == (asks[0].id, (), True)
    assert (await store.refusal(answer(asks[0], choosing("a"), answer_id="b"))).code is Code.ASK_ALREADY_RESOLVED


async def test_once_the_payload_is_erased_the_request_id_alone_decides(store: Store) -> None:
    asks = await resolved(store)
    await erase(store, store.now + 1)
    again = await store.ask(create(text_question("other"), request_id="r0"))
    assert (again.id, again.payload_expired) == (asks[0].id, True)
