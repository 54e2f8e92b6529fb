"""A turn as a block of a program, with a real server (CONTRACT section 4)."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.client.people import answer_next, pending
from tests.client.restartable import RestartableServer

from askd.client import (
    Answered,
    Answerer,
    AskCancelledError,
    AskExpiredError,
    AskRejectedError,
    AsyncClient,
    AsyncTurn,
    RequestError,
    UnansweredError,
    UnjoinedError,
)
from askd.client.content import outcome_word
from askd.v1 import ask_pb2 as pb

CHOICE = {
    "prompt": "Which?",
    "type": "choice",
    "options": [{"id": "a", "label": "A", "value": {"port": 80}}, {"id": "b", "label": "B", "value": None}],
    "allowNotes": True,
}


async def holds(client: AsyncClient, turn: AsyncTurn) -> str:
    """The outcome that the server holds of a turn that has ended."""
    return outcome_word((await client.end_turn(turn.session, turn.id, "cancelled")).outcome)


async def test_a_turn_returns_the_answer_and_who_gave_it(client: AsyncClient) -> None:
    async with client.turn("s", "t") as turn:
        asking = asyncio.create_task(turn.ask(CHOICE))
        ask_id = await answer_next(client, {"selectedIds": ["a"], "notes": "n"})
        answered = await asking
    assert answered.answer == {"selected": [{"id": "a", "value": {"port": 80}}], "notes": "n"}
    assert answered.answered_by == Answerer(kind="api_key", id=(await client.who_am_i()).principal.removeprefix("key:"))
    assert answered.ask == await client.get(ask_id, session="s", turn="t")
    assert (turn.outcome, await holds(client, turn)) == ("completed", "completed")


async def test_questions_asked_together_have_answers_in_order(client: AsyncClient) -> None:
    async with client.turn("s") as turn:
        asking = asyncio.create_task(turn.ask(["x", "y"], tool={"messageId": "m", "callId": "c"}))
        await answer_next(client, ["1", "2"])
        answered = await asking
    assert answered.answers == ("1", "2")
    assert answered.ask.tool.call_id == "c"
    with pytest.raises(ValueError, match="2 questions"):
        _ = answered.answer


async def test_asks_of_a_turn_may_wait_at_the_same_time(client: AsyncClient) -> None:
    async def answer_all() -> None:
        for ask in await pending(client, 3):
            await client.answer(ask.id, ask.questions[0].prompt[0].text.upper())

    async with client.turn("s") as turn:
        *answers, _ = await asyncio.gather(turn.ask("a"), turn.ask("b"), turn.ask("c"), answer_all())
    assert [answered.answer for answered in answers if isinstance(answered, Answered)] == ["A", "B", "C"]
    assert turn.outcome == "completed"


Ending = Callable[[AsyncClient, pb.AskState], Awaitable[object]]


@pytest.mark.parametrize(
    ("end", "kind", "reason", "code"),
    [
        (lambda client, ask: client.reject(ask.id, "why not"), AskRejectedError, "why not", "ask_rejected"),
        (lambda client, ask: client.cancel(ask.id), AskCancelledError, "withdrawn", "ask_cancelled"),
        (lambda client, ask: client.end_turn("s", "t", "failed"), AskCancelledError, "turn_ended", "ask_cancelled"),
        (lambda client, ask: client.end_session("s"), AskCancelledError, "session_ended", "ask_cancelled"),
        (lambda client, ask: client.wait(ask), AskExpiredError, "expired", "ask_expired"),
    ],
    ids=["rejected", "withdrawn", "turn ended", "session ended", "expired"],
)
async def test_what_is_not_answered_raises(
    client: AsyncClient, end: Ending, kind: type[AskCancelledError], reason: str, code: str
) -> None:
    with pytest.raises(kind) as raised:  # noqa: PT012  # a turn's end takes its block
        async with client.turn("s", "t") as turn:
            asking = asyncio.create_task(turn.ask("x", expires_in=1 if kind is AskExpiredError else None))
            [ask] = await pending(client)
            await end(client, ask)
            await asking
    assert (raised.value.reason, raised.value.code, raised.value.ask.id) == (reason, code, ask.id)
    assert isinstance(raised.value, UnansweredError)
    assert isinstance(raised.value, RequestError)
    assert turn.outcome == ("failed" if reason == "turn_ended" else "interrupted")


def test_an_expired_ask_is_a_cancelled_one() -> None:
    assert issubclass(AskExpiredError, AskCancelledError)


async def test_a_refused_question_is_joined(client: AsyncClient) -> None:
    async with client.turn("s") as turn:
        for question in ({"type": "text"}, "x"):
            with pytest.raises(RequestError, match="invalid_arguments"):
                await turn.ask(question, expires_in=1e9)
    assert turn.outcome == "completed"


async def test_cancelling_the_task_that_waits_withdraws_the_ask(client: AsyncClient) -> None:
    async with client.turn("s") as turn:
        asking = asyncio.create_task(turn.ask("x"))
        [ask] = await pending(client)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await client.get(ask.id)).cancel_reason == pb.CANCEL_REASON_WITHDRAWN
    assert turn.outcome == "completed"


async def test_cancelling_it_again_and_again_withdraws_the_ask_all_the_same(client: AsyncClient) -> None:
    async with client.turn("s") as turn:
        asking = asyncio.create_task(turn.ask("x"))
        [ask] = await pending(client)
        while not asking.done():
            asking.cancel()
            await asyncio.sleep(0)
        assert asking.cancelled()
        assert (await client.get(ask.id)).cancel_reason == pb.CANCEL_REASON_WITHDRAWN
    assert turn.outcome == "completed"


async def test_a_timeout_withdraws_the_ask(client: AsyncClient) -> None:
    async with client.turn("s") as turn:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await turn.ask("x")
        [ask] = [ask async for ask in client.list()]
        assert ask.cancel_reason == pb.CANCEL_REASON_WITHDRAWN
    assert turn.outcome == "completed"


async def test_a_cancelled_program_withdraws_and_interrupts(client: AsyncClient) -> None:
    turn = client.turn("s")

    async def program() -> None:
        async with turn, asyncio.TaskGroup() as group:
            group.create_task(turn.ask("x"))
            group.create_task(turn.ask("y"))

    running = asyncio.create_task(program())
    asks = await pending(client, 2)
    while not running.done():
        running.cancel()
        await asyncio.sleep(0)
    assert running.cancelled()
    assert {(await client.get(ask.id)).cancel_reason for ask in asks} == {pb.CANCEL_REASON_WITHDRAWN}
    assert (turn.outcome, await holds(client, turn)) == ("interrupted", "interrupted")


async def test_an_ask_left_pending_fails_the_turn(client: AsyncClient) -> None:
    with pytest.raises(UnjoinedError) as raised:  # noqa: PT012  # a turn's end takes its block
        async with client.turn("s", "t") as turn:
            asking = asyncio.create_task(turn.ask("x"))
            [ask] = await pending(client)
    assert (raised.value.ask_ids, raised.value.count, raised.value.code) == ((ask.id,), 1, "asks_unjoined")
    assert turn.outcome == "failed"
    assert list((await client.end_turn("s", "t", "completed")).unjoined_ask_ids) == [ask.id]
    assert asking.done()
    with pytest.raises(AskCancelledError, match="turn_ended"):
        await asking


async def test_an_ask_that_another_client_left_in_the_turn_fails_it(client: AsyncClient) -> None:
    with pytest.raises(UnjoinedError) as raised:
        async with client.turn("s", "t") as turn:
            ask = await client.ask("x", session="s", turn="t")
    assert (raised.value.ask_ids, raised.value.count, turn.outcome) == ((ask.id,), 1, "failed")


async def test_a_call_that_was_never_awaited_fails_the_turn(client: AsyncClient) -> None:
    with pytest.raises(UnjoinedError) as raised:
        async with client.turn("s") as turn:
            forgotten = turn.ask("x")
    assert (raised.value.ask_ids, raised.value.count) == ((), 1)
    assert await holds(client, turn) == "failed"
    with pytest.raises(RequestError, match="turn_ended"):
        await forgotten
    assert [ask async for ask in client.list()] == []


async def test_a_block_that_raises_interrupts_the_turn_and_what_it_left(client: AsyncClient) -> None:
    with pytest.raises(ZeroDivisionError):  # noqa: PT012  # a turn's end takes its block
        async with client.turn("s") as turn:
            asking = asyncio.create_task(turn.ask("x"))
            await pending(client)
            _ = 1 / 0
    assert (turn.outcome, await holds(client, turn)) == ("interrupted", "interrupted")
    assert asking.done()
    with pytest.raises(AskCancelledError, match="interrupted"):
        await asking


async def test_a_turn_that_others_ended_keeps_their_outcome(client: AsyncClient) -> None:
    async with client.turn("s", "t") as turn:
        await client.end_turn("s", "t", "interrupted")
        with pytest.raises(RequestError, match="turn_ended"):
            await turn.ask("x")
    assert turn.outcome == "interrupted"


async def test_a_turn_asks_inside_of_its_block_only(client: AsyncClient) -> None:
    turn = client.turn("s")
    with pytest.raises(RequestError, match="turn_ended: the turn asks only inside"):
        await turn.ask("x")
    async with turn:
        pass
    with pytest.raises(RequestError, match="turn_ended: the turn asks only inside"):
        await turn.ask("x")
    assert client.turn("s").id != turn.id


async def test_a_turn_outlives_a_kill_of_the_server_and_asks_once(
    client: AsyncClient, mortal_server: RestartableServer
) -> None:
    async with client.turn("s") as turn:
        before = asyncio.create_task(turn.ask("before"))
        await pending(client)
        await asyncio.to_thread(mortal_server.kill)
        meanwhile = asyncio.create_task(turn.ask("meanwhile"))
        await asyncio.to_thread(mortal_server.start)
        for ask in await pending(client, 2):
            await client.answer(ask.id, ask.questions[0].prompt[0].text)
        assert [(await asking).answer for asking in (before, meanwhile)] == ["before", "meanwhile"]
        assert len([ask async for ask in client.list()]) == 2
    assert turn.outcome == "completed"
