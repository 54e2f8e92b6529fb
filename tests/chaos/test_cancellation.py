"""The cancellation sweep: each handler is cancelled at each of its awaits in turn. No connection is kept, no half of a
change is stored, and the next call works (issue 2, "Must show")."""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import aclosing
from itertools import count
from typing import Any

import grpc
import pytest
from google.protobuf import duration_pb2
from tests.chaos.history import check_asks, check_log
from tests.chaos.load import survey
from tests.clients import grant
from tests.conditions import eventually
from tests.questions import text, text_question
from tests.servers import Served

from askd.v1 import ask_service_pb2 as pb
from askd.v1 import key_service_pb2 as keys
from askd.v1 import session_service_pb2 as sessions

#: Handlers that need not wait for anything where what they read is in memory.
FROM_MEMORY = {"askd.v1.AskService/GetAsk"}
#: More awaits than any handler has.
FAR = 200


class CancelledAt:
    """Awaits a coroutine, and has the current task cancelled as it comes to its await of a number, counted from 0."""

    def __init__(self, call: Awaitable[Any], number: int) -> None:
        self._call = call
        self._number = number
        self.reached = False

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._call.__await__()
        value: Any = None
        for number in count():
            try:
                waits_for = steps.send(value)
            except StopIteration as stop:
                return stop.value
            if number == self._number:
                self.reached = True
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                value = yield waits_for
            except BaseException as error:
                try:
                    waits_for = steps.throw(error)
                except StopIteration as stop:
                    return stop.value
                value = yield waits_for


class Context:
    """The context of a call without a deadline, which nothing refuses."""

    def __init__(self, credential: str) -> None:
        self._metadata = (("authorization", f"Bearer {credential}"),)

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self._metadata

    def time_remaining(self) -> None:
        return None

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, *refusal: object) -> None:
        raise AssertionError(refusal)


async def call(server: Served, handler: Any, request: Any) -> None:
    """Run a handler as the server would; a stream is read to where it is synced."""
    context = Context(server.credential)
    if not handler.response_streaming:
        await handler.unary_unary(request, context)
        return
    async with aclosing(handler.unary_stream(request, context)) as responses:
        async for response in responses:
            if pb.WatchAsksResponse.FromString(response).synced:
                return


Request = Callable[[Served, str], Awaitable[Any]]


async def ask(_: Served, name: str) -> Any:
    return pb.AskRequest(workspace_id="w", session_id="s", turn_id="t", questions=[text_question()], request_id=name)


async def _stored(server: Served) -> str:
    return (await server.admin.ask()).id


async def answer(server: Served, name: str) -> Any:
    return pb.AnswerAskRequest(workspace_id="w", ask_id=await _stored(server), answer_id=name, answers=[text()])


async def reject(server: Served, _: str) -> Any:
    return pb.RejectAskRequest(workspace_id="w", ask_id=await _stored(server), reason="no")


async def cancel(server: Served, _: str) -> Any:
    return pb.CancelAskRequest(workspace_id="w", ask_id=await _stored(server))


async def get(server: Served, _: str) -> Any:
    return pb.GetAskRequest(workspace_id="w", ask_id=await _stored(server))


async def wait(server: Served, _: str) -> Any:
    timeout = duration_pb2.Duration(nanos=1_000_000)
    return pb.WaitAskRequest(workspace_id="w", ask_id=await _stored(server), timeout=timeout)


async def list_asks(_: Served, __: str) -> Any:
    return pb.ListAsksRequest(workspace_id="w")


async def watch(server: Served, _: str) -> Any:
    await _stored(server)
    return pb.WatchAsksRequest(workspace_id="w")


async def resume(server: Served, _: str) -> Any:
    await _stored(server)
    return pb.WatchAsksRequest(workspace_id="w", after_revision=0)


async def create_key(_: Served, name: str) -> Any:
    return keys.CreateKeyRequest(name=name, grants=[grant("asker", "w")])


async def revoke_key(server: Served, _: str) -> Any:
    return keys.RevokeKeyRequest(key_id=(await server.admin.create_key()).key.id)


async def list_keys(_: Served, __: str) -> Any:
    return keys.ListKeysRequest()


async def end_turn(server: Served, name: str) -> Any:
    await server.admin.ask(session_id=name, turn_id="t")
    return sessions.EndTurnRequest(
        workspace_id="w", session_id=name, turn_id="t", outcome=sessions.TURN_OUTCOME_COMPLETED
    )


async def end_session(server: Served, name: str) -> Any:
    await server.admin.ask(session_id=name)
    return sessions.EndSessionRequest(workspace_id="w", session_id=name)


HANDLERS: dict[str, Request] = {
    "askd.v1.AskService/Ask": ask,
    "askd.v1.AskService/AnswerAsk": answer,
    "askd.v1.AskService/RejectAsk": reject,
    "askd.v1.AskService/CancelAsk": cancel,
    "askd.v1.AskService/GetAsk": get,
    "askd.v1.AskService/WaitAsk": wait,
    "askd.v1.AskService/ListAsks": list_asks,
    "askd.v1.AskService/WatchAsks": watch,
    "askd.v1.AskService/WatchAsks#resumed": resume,
    "askd.v1.KeyService/CreateKey": create_key,
    "askd.v1.KeyService/RevokeKey": revoke_key,
    "askd.v1.KeyService/ListKeys": list_keys,
    "askd.v1.SessionService/EndTurn": end_turn,
    "askd.v1.SessionService/EndSession": end_session,
}


async def wrapped(server: Served, name: str) -> Any:
    """A method's handler with all that the interceptor puts around it, which it keeps once the method was called."""
    path = f"/{name.partition('#')[0]}"
    with pytest.raises(grpc.aio.AioRpcError):
        await server.admin.send(path, b"\xff")
    return server.server.interceptor._wrapped[path]


def transactions(server: Served) -> int:
    """The transactions that are under way."""
    threads = [getattr(server.database, name) for name in ("_readers", "_writer")]
    return sum(each.open_transactions for each in threads)


@pytest.mark.parametrize("name", HANDLERS)
async def test_a_handler_can_be_cancelled_at_each_of_its_awaits(server: Served, name: str) -> None:
    handler = await wrapped(server, name)
    for number in range(FAR):
        request = await HANDLERS[name](server, f"n{number}")
        cancelled = CancelledAt(call(server, handler, request), number)
        task = asyncio.ensure_future(_run(cancelled))
        await asyncio.wait([task])
        assert task.cancelled() == cancelled.reached
        await eventually(lambda: not transactions(server))
        assert not server.server.hub._waits
        assert not server.server.streams._open
        assert not server.server.interceptor.under_way.total()
        await server.admin.ask()
        if not cancelled.reached:
            task.result()
            break
    else:
        raise AssertionError("it awaits and awaits")
    assert number or name in FROM_MEMORY, "it was cancelled at least once"
    await _check_whole(server)


async def _run(cancelled: CancelledAt) -> None:
    await cancelled


async def _check_whole(server: Served) -> None:
    """The log, the list and the payloads tell the same."""
    await eventually(lambda: not server.server.writer.waiting)
    logs, asks = await survey(server.admin, ["w"])
    check_log(logs["w"])
    check_asks(logs["w"], asks["w"])
    assert all(kept.questions for kept in asks["w"])
    requests = [kept for kept in asks["w"] if kept.turn_id == "t" and kept.session_id == "s"]
    assert len({kept.id for kept in requests}) == len(requests)
