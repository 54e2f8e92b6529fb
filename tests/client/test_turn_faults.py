"""Turns whose server hangs, is away, or loses replies: scripted, since no real one does so on demand."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from tests.client.scripted_server import HANG, Script, failure, serving
from tests.conditions import eventually

from askd.client import AskCancelledError, AsyncClient, AsyncTurn, UnansweredError, UnjoinedError, turns
from askd.client.errors import RequestError
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.v1 import session_service_pb2 as sessions

UNAVAILABLE = failure(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")
PENDING = pb.AskState(id="que_1", status=pb.ASK_STATUS_PENDING)
ASKED = rpc.AskResponse(ask=PENDING)
WITHDRAWN = rpc.CancelAskResponse(
    ask=pb.AskState(id="que_1", status=pb.ASK_STATUS_CANCELLED, cancel_reason=pb.CANCEL_REASON_WITHDRAWN)
)
COMPLETED = sessions.EndTurnResponse(outcome=sessions.TURN_OUTCOME_COMPLETED)
FAILED = sessions.EndTurnResponse(outcome=sessions.TURN_OUTCOME_FAILED)
INTERRUPTED = sessions.EndTurnResponse(outcome=sessions.TURN_OUTCOME_INTERRUPTED)


@pytest.fixture
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "FINISH_TIMEOUT", 0.1)


@asynccontextmanager
async def turn_of(**scripts: Script) -> AsyncIterator[AsyncTurn]:
    """A turn that a scripted server serves."""
    async with serving(**scripts) as address, AsyncClient(address) as client:
        yield client.turn("s", "t")


def answered(**fields: Any) -> rpc.WaitAskResponse:
    """What a wait says of an ask that was answered."""
    return rpc.WaitAskResponse(ask=pb.AskState(id="que_1", status=pb.ASK_STATUS_ANSWERED, **fields))


async def test_an_ask_whose_reply_was_not_awaited_is_withdrawn() -> None:
    ask, cancel = Script(HANG, ASKED), Script(WITHDRAWN)
    async with turn_of(Ask=ask, CancelAsk=cancel, EndTurn=Script(COMPLETED)) as turn:
        async with turn:
            asking = asyncio.create_task(turn.ask("x"))
            await ask.called.wait()
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
        assert (turn.outcome, [request.ask_id for request in cancel.requests]) == ("completed", ["que_1"])
        assert len({request.request_id for request in ask.requests}) == 1


async def test_an_ask_that_the_server_refused_meanwhile_needs_no_withdrawal(caplog: pytest.LogCaptureFixture) -> None:
    ask = Script(HANG, failure(grpc.StatusCode.FAILED_PRECONDITION, "TURN_ENDED"))
    async with turn_of(Ask=ask, EndTurn=Script(COMPLETED)) as turn, turn:
        asking = asyncio.create_task(turn.ask("x"))
        await ask.called.wait()
        asking.cancel()
        await asyncio.wait([asking])
    assert caplog.messages == []


@pytest.mark.usefixtures("_impatient")
async def test_a_withdrawal_is_given_up_in_the_end_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    wait = Script(HANG)
    scripts = {"Ask": Script(ASKED), "WaitAsk": wait, "CancelAsk": Script(HANG), "EndTurn": Script(COMPLETED)}
    async with turn_of(**scripts) as turn, turn:
        asking = asyncio.create_task(turn.ask("x"))
        await wait.called.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
    [record] = caplog.records
    assert (record.levelno, record.getMessage()[:43]) == (
        logging.WARNING,
        "an ask of turn 't' could not be taken back:",
    )


@pytest.mark.usefixtures("_impatient")
async def test_an_answer_that_nobody_took_fails_the_turn() -> None:
    # The wait hangs: to the program the ask is pending, while the server has none that is.
    wait, end = Script(HANG), Script(FAILED)
    listing = Script(rpc.ListAsksResponse())
    async with turn_of(Ask=Script(ASKED), WaitAsk=wait, ListAsks=listing, EndTurn=end) as turn:
        with pytest.raises(UnjoinedError) as raised:  # noqa: PT012  # a turn's end takes its block
            async with turn:
                asking = asyncio.create_task(turn.ask("x"))
                await wait.called.wait()
        asking.cancel()
    assert (raised.value.ask_ids, raised.value.count, turn.outcome) == (("que_1",), 1, "failed")
    assert [request.outcome for request in end.requests] == [sessions.TURN_OUTCOME_FAILED]


async def test_no_call_outlives_its_turn() -> None:
    # The wait is told of the turn's end after the end itself has been.
    async def told_late() -> rpc.WaitAskResponse:
        await eventually(lambda: turn.outcome is not None)
        return rpc.WaitAskResponse(ask=WITHDRAWN.ask)

    for raises in (False, True):
        wait, listing = Script(told_late), Script(rpc.ListAsksResponse(asks=[PENDING]))
        async with turn_of(Ask=Script(ASKED), WaitAsk=wait, ListAsks=listing, EndTurn=Script(FAILED)) as turn:
            with pytest.raises(ZeroDivisionError if raises else UnjoinedError):  # noqa: PT012  # its end takes its block
                async with turn:
                    asking = asyncio.create_task(turn.ask("x"))
                    await wait.called.wait()
                    _ = raises and 1 / 0
            assert asking.done()
            assert isinstance(asking.exception(), AskCancelledError)


@pytest.mark.usefixtures("_impatient")
async def test_the_blocks_own_error_is_raised_where_its_turn_cannot_be_ended(caplog: pytest.LogCaptureFixture) -> None:
    for end in (Script(HANG), Script(failure(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"))):
        async with turn_of(EndTurn=end) as turn:
            with pytest.raises(ZeroDivisionError):
                async with turn:
                    _ = 1 / 0
        assert turn.outcome is None
    assert [message[:45] for message in caplog.messages] == [
        "turn 't' could not be ended as interrupted: T",
        "turn 't' could not be ended as interrupted: R",
    ]


async def test_an_end_that_is_refused_raises() -> None:
    refused = Script(failure(grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED"))
    async with turn_of(EndTurn=refused) as turn:
        with pytest.raises(RequestError, match="permission_denied"):
            async with turn:
                pass


async def test_an_end_whose_reply_was_lost_is_sent_again() -> None:
    async with turn_of(EndTurn=Script(UNAVAILABLE, COMPLETED)) as turn, turn:
        pass
    assert turn.outcome == "completed"


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("step", [COMPLETED, HANG], ids=["replies", "hangs"])
async def test_a_program_that_is_cancelled_while_its_turn_ends_ends_soon(step: Any) -> None:
    end = Script(step)
    async with turn_of(EndTurn=end) as turn:

        async def program() -> None:
            async with turn:
                pass

        running = asyncio.create_task(program())
        await end.called.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
    assert turn.outcome == ("completed" if step is COMPLETED else None)


async def test_an_answer_that_was_erased_is_none() -> None:
    waits = Script(answered(payload_expired=True))
    async with turn_of(Ask=Script(ASKED), WaitAsk=waits, EndTurn=Script(INTERRUPTED)) as turn:
        with pytest.raises(UnansweredError, match="payload_expired"):
            async with turn:
                await turn.ask("x")


async def test_a_user_is_named_as_such() -> None:
    waits = Script(answered(answers=[pb.Answer(text="yes")], resolved_by_user_id="ada"))
    async with turn_of(Ask=Script(ASKED), WaitAsk=waits, EndTurn=Script(COMPLETED)) as turn, turn:
        by = (await turn.ask("x")).answered_by
    assert (by.kind, by.id) == ("user", "ada")
