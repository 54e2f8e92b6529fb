"""Asks that ended without an answer, as both dialects show them (CONTRACT sections 4 and 7)."""

from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any

import pytest
from tests.clients import LIMIT, span
from tests.gateway.places import Place, asks
from tests.gateway.streams import Stream
from tests.questions import text

from askd.v1 import ask_pb2 as pb
from askd.v1 import session_service_pb2 as sessions
from askd.v1.session_service_pb2_grpc import SessionServiceStub

pytestmark = pytest.mark.asyncio(loop_scope="session")

# --- ways to end, each with the event that dialect B has for it ---


async def _rejected(place: Place, ask: pb.AskState) -> str:
    await place.reject(ask.id)
    return "rejected"


async def _rejected_in_b(place: Place, ask: pb.AskState) -> str:
    assert (await place.http.post(place.questions(ask.id, "reject"))).status_code == 200
    return "rejected"


async def _withdrawn(place: Place, ask: pb.AskState) -> str:
    await place.cancel(ask.id)
    return "cancelled"


async def _expired(place: Place, ask: pb.AskState) -> str:
    # Made to expire by itself.
    waited = await place.http.get(asks(ask.id), params={"wait": "10"}, timeout=20)
    assert waited.json()["status"] == "cancelled"
    return "cancelled"


async def _turn_interrupted(place: Place, ask: pb.AskState) -> str:
    return await _end_turn(place, sessions.TURN_OUTCOME_INTERRUPTED)


async def _turn_failed(place: Place, ask: pb.AskState) -> str:
    return await _end_turn(place, sessions.TURN_OUTCOME_FAILED)


async def _turn_completed(place: Place, ask: pb.AskState) -> str:
    return await _end_turn(place, sessions.TURN_OUTCOME_COMPLETED)


async def _end_turn(place: Place, outcome: "sessions.TurnOutcome.ValueType") -> str:
    request = sessions.EndTurnRequest(workspace_id=place.workspace, session_id="s", turn_id="t", outcome=outcome)
    await SessionServiceStub(place.grpc.channel).EndTurn(request, metadata=place.grpc.metadata, timeout=LIMIT)
    return "cancelled"


async def _session_ended(place: Place, ask: pb.AskState) -> str:
    request = sessions.EndSessionRequest(workspace_id=place.workspace, session_id="s")
    await SessionServiceStub(place.grpc.channel).EndSession(request, metadata=place.grpc.metadata, timeout=LIMIT)
    return "cancelled"


End = Callable[[Place, pb.AskState], Awaitable[str]]
ENDS: list[End] = [
    _rejected, _rejected_in_b, _withdrawn, _expired, _turn_interrupted, _turn_failed, _turn_completed, _session_ended,
]  # fmt: skip


@pytest.mark.parametrize("end", ENDS)
async def test_an_ask_without_an_answer_reads_cancelled_and_leaves_the_lists(place: Place, end: End) -> None:
    beside = await place.ask(session_id="other", turn_id="t")
    ask = await place.ask(expires_in=span(1) if end is _expired else None)
    pending = (await place.http.get(asks(ask.id))).json()
    assert [request["id"] for request in await place.pending()] == [beside.id, ask.id]
    name = await end(place, ask)

    ended = await place.get(ask.id)
    shown = (await place.http.get(asks(ask.id))).json()
    moment = ended.rejected_at if ended.HasField("rejected_at") else ended.cancelled_at
    # Nobody is said to have answered, and no reason stands there: this dialect has neither word.
    assert shown == pending | {"status": "cancelled", "cancelledAt": _utc(moment)}
    assert (await place.http.get(asks())).json() == {"items": [shown]}
    for url in (place.questions(), "/question"):
        assert [request["id"] for request in (await place.http.get(url)).json()] == [beside.id]
    assert await _last_event(place) == {"type": name, "revision": ended.resolved_revision}
    assert await _refusals(place, ask.id) == [
        (409, "ask_already_resolved", "cancelled"),
        (400, {"requestID": "Question request is already resolved"}),
        (400, {"requestID": "Question request is already resolved"}),
        (404, "QuestionNotFoundError"),
        (404, "QuestionNotFoundError"),
    ]
    assert await place.get(ask.id) == ended, "a late answer changed it"


def _utc(moment: Any) -> str:
    return str(moment.ToDatetime(tzinfo=UTC).isoformat().replace("+00:00", "Z"))


async def _last_event(place: Place) -> dict[str, Any]:
    """The type and the revision of the last change that dialect B's stream has."""
    headers = {"last-event-id": "0"}
    data: dict[str, Any] = {}
    async with place.http.stream("GET", place.questions("events"), headers=headers) as response:
        async for event in Stream(response):
            if event.name == "synced":
                break
            data = event.data
    return {name: data[name] for name in ("type", "revision")}


async def _refusals(place: Place, ask_id: str) -> list[Any]:
    """What late answers and rejections are told in A, B and the opencode paths."""
    late = await place.http.post(asks(ask_id, "answer"), json={"answer": "Ada", "answerId": "late"})
    error = late.json()["error"]
    told: list[Any] = [(late.status_code, error["code"], error["details"]["status"])]
    for action, body in (("reply", {"answers": [["Ada"]]}), ("reject", None)):
        response = await place.http.post(place.questions(ask_id, action), json=body)
        told.append((response.status_code, *response.json()["errors"]))
    for action, body in (("reply", {"answers": [["Ada"]]}), ("reject", None)):
        response = await place.http.post(f"/question/{ask_id}/{action}", json=body)
        told.append((response.status_code, response.json()["_tag"]))
    return told


async def test_an_answered_ask_is_no_cancelled_one(place: Place) -> None:
    ask = await place.ask()
    await place.answer(ask.id, text())
    shown = (await place.http.get(asks(ask.id))).json()
    assert (shown["status"], "cancelledAt" in shown) == ("answered", False)
    assert await place.pending() == []
