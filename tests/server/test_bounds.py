"""Bounded queues: one call too many is unavailable, and many that come at once are not (CONTRACT section 6)."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import grpc
import pytest
from tests.chaos.test_leaks import gate
from tests.clients import Client, connected, refusal
from tests.conditions import eventually
from tests.servers import Served

from askd.server.interceptor import BOUNDS

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


async def check_full(call: "asyncio.Future[object]") -> None:
    refused = await refusal(call)
    assert (refused.status, refused.reason) == (UNAVAILABLE, "unavailable")
    assert refused.retry_after is not None


async def test_a_full_queue_of_changes_is_unavailable_and_empties(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("askd.store.writer.QUEUE", 3)
    with gate(server, monkeypatch) as held:
        writing = asyncio.create_task(server.admin.ask())
        await eventually(held.come.is_set)
        waiting = [asyncio.create_task(server.admin.ask()) for _ in range(3)]
        await eventually(lambda: server.server.writer.waiting == 3)
        await check_full(asyncio.ensure_future(server.admin.ask(request_id="r")))
        assert await server.admin.page() is not None, "reading goes on"
        held.passing.set()
        asks = await asyncio.gather(writing, *waiting)
    assert sorted(ask.created_revision for ask in asks) == [1, 2, 3, 4]
    assert (await server.admin.ask(request_id="r")).created_revision == 5


@pytest.mark.parametrize("kind", ["call", "wait", "watch"])
async def test_each_kind_of_call_has_a_bound_of_its_own(
    server: Served, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    admin = server.admin
    ask = await admin.ask()
    monkeypatch.setitem(BOUNDS, kind, 0)
    calls = {"call": admin.get(ask.id), "wait": admin.wait(ask.id, 0), "watch": admin.watch().response()}
    for name, call in calls.items():
        if name == kind:
            await check_full(asyncio.ensure_future(call))
        else:
            await call


async def test_more_than_a_thousand_calls_at_once_are_all_answered(server: Served) -> None:
    ask = await server.admin.ask()
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connected(server.address, server.credential)) for _ in range(4)]
        codes = await asyncio.gather(*[_code(clients[number % 4], ask.id) for number in range(1500)])
    assert Counter(codes) == {grpc.StatusCode.OK: 1500}


async def _code(client: Client, ask_id: str) -> grpc.StatusCode:
    try:
        await client.get(ask_id)
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK
