"""WaitAsk over the wire (CONTRACT section 5)."""

import asyncio
import time
from collections.abc import Awaitable
from typing import TypeVar

import pytest
from google.protobuf import duration_pb2
from tests.clients import ANSWERED, CANCELLED, PENDING, REJECTED, Client, refusal
from tests.conditions import eventually
from tests.questions import text
from tests.servers import Served

from askd.domain.asks import Ask
from askd.domain.principals import Access
from askd.service.asks import AskReference, Asks
from askd.v1 import ask_service_pb2 as pb

T = TypeVar("T")


async def timed(call: Awaitable[T]) -> tuple[T, float]:
    """What a call returns, and the seconds it took."""
    begin = time.monotonic()
    return await call, time.monotonic() - begin


async def waiting(server: Served, count: int = 1) -> None:
    """Return once so many waits are under way."""
    await eventually(lambda: sum(map(len, server.server.hub._waits.values())) == count)


async def test_an_ask_that_was_resolved_before_anyone_waits_is_returned_at_once(admin: Client) -> None:
    for resolve in (admin.answer, admin.reject, admin.cancel):
        ask = await admin.ask()
        await resolve(ask.id)
        resolved, seconds = await timed(admin.wait(ask.id, 60))
        assert resolved == await admin.get(ask.id)
        assert seconds < 5


async def test_a_wait_returns_as_soon_as_the_ask_is_resolved(server: Served) -> None:
    admin = server.admin
    for resolve, status in ((admin.answer, ANSWERED), (admin.reject, REJECTED), (admin.cancel, CANCELLED)):
        ask = await admin.ask()
        wait = asyncio.create_task(admin.wait(ask.id, 60, deadline=None))
        await waiting(server)
        await resolve(ask.id)
        resolved, seconds = await timed(wait)
        assert resolved.status == status
        assert resolved == await admin.get(ask.id), "questions and answers included"
        assert seconds < 5


async def test_a_wait_needs_neither_timeout_nor_deadline(server: Served) -> None:
    ask = await server.admin.ask()
    wait = asyncio.create_task(server.admin.wait(ask.id, deadline=None))
    await waiting(server)
    receipt = await server.admin.answer(ask.id)
    assert (await wait).answers == receipt.answers


async def test_a_wait_ends_pending_when_its_timeout_is_over(admin: Client) -> None:
    ask = await admin.ask()
    waited, seconds = await timed(admin.wait(ask.id, 0.5))
    assert waited == ask
    assert 0.4 < seconds < 3


async def test_a_wait_ends_pending_before_the_deadline_of_its_call(admin: Client) -> None:
    ask = await admin.ask()
    waited, seconds = await timed(admin.wait(ask.id, deadline=1))
    assert waited == ask
    assert 0.5 < seconds < 1


async def test_a_wait_ends_at_the_nearer_of_timeout_and_deadline(admin: Client) -> None:
    ask = await admin.ask()
    for timeout, deadline in ((0.5, 30.0), (60.0, 0.6)):
        waited, seconds = await timed(admin.wait(ask.id, timeout, deadline=deadline))
        assert waited.status == PENDING
        assert seconds < 3


@pytest.mark.parametrize("deadline", [0.9, 9.001, 30.01, 100.1, 300.2, 1000.1])
async def test_a_wait_is_over_before_the_clients_deadline_though_grpc_rounds_deadlines_up(
    admin: Client, deadline: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float | None] = []

    async def wait(self: Asks, access: Access, reference: AskReference, seconds: float | None) -> Ask:
        waits.append(seconds)
        return await self.get(access, reference)

    monkeypatch.setattr(Asks, "wait", wait)
    ask = await admin.ask()
    await admin.wait(ask.id, deadline=deadline)
    assert waits[0] is not None
    assert deadline / 2 < waits[0] < deadline


async def test_a_wait_of_no_time_is_a_look(admin: Client) -> None:
    ask = await admin.ask()
    waited, seconds = await timed(admin.wait(ask.id, 0))
    assert waited == ask
    assert seconds < 3


@pytest.mark.parametrize("timeout", [duration_pb2.Duration(seconds=-1), duration_pb2.Duration(nanos=-1)])
async def test_a_negative_timeout_is_refused(admin: Client, timeout: duration_pb2.Duration) -> None:
    ask = await admin.ask()
    request = pb.WaitAskRequest(workspace_id="w", ask_id=ask.id, timeout=timeout)
    refused = await refusal(admin.asks.WaitAsk(request, metadata=admin.metadata, timeout=10))
    assert (refused.reason, refused.fields) == ("invalid_arguments", ("timeout",))


@pytest.mark.parametrize("seconds", [315_576_000_000, 2**63 - 1])
async def test_a_timeout_may_be_beyond_any_clock(server: Served, seconds: int) -> None:
    ask = await server.admin.ask()
    timeout = duration_pb2.Duration(seconds=seconds, nanos=999_999_999)
    request = pb.WaitAskRequest(workspace_id="w", ask_id=ask.id, timeout=timeout)
    wait = asyncio.ensure_future(server.admin.asks.WaitAsk(request, metadata=server.admin.metadata))
    await waiting(server)
    await server.admin.answer(ask.id)
    assert (await wait).ask.status == ANSWERED


async def test_a_wait_never_changes_the_ask(admin: Client) -> None:
    ask = await admin.ask()
    await admin.wait(ask.id, 0)
    assert await admin.get(ask.id) == ask
    assert (await admin.ask()).created_revision == 2


async def test_an_unknown_ask_is_not_waited_for(admin: Client) -> None:
    ask = await admin.ask()
    assert (await refusal(admin.wait("que_unknown", 60))).reason == "not_found"
    assert (await refusal(admin.wait(ask.id, 60, workspace_id="other"))).reason == "not_found"


async def test_everyone_who_waits_is_told(server: Served) -> None:
    ask, other = await server.admin.ask(), await server.admin.ask()
    waits = [asyncio.create_task(server.admin.wait(ask.id, 60)) for _ in range(100)]
    unconcerned = asyncio.create_task(server.admin.wait(other.id, 60))
    await waiting(server, 101)
    await server.admin.answer(ask.id, text("Ada"))
    assert {wait.answers[0].text for wait in await asyncio.gather(*waits)} == {"Ada"}
    assert not unconcerned.done()
    await server.admin.cancel(other.id)
    assert (await unconcerned).status == CANCELLED


async def test_a_wait_that_is_given_up_leaves_nothing_behind(server: Served) -> None:
    ask = await server.admin.ask()
    request = pb.WaitAskRequest(workspace_id="w", ask_id=ask.id)
    calls = [server.admin.asks.WaitAsk(request, metadata=server.admin.metadata) for _ in range(20)]
    await waiting(server, 20)
    for call in calls:
        call.cancel()
    await eventually(lambda: not server.server.hub._waits and not server.server.interceptor.under_way.total())
    assert (await server.admin.answer(ask.id)).status == ANSWERED
