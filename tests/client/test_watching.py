"""Watches: every event once and in order, whatever happens to the server (CONTRACT section 5, Watching)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
import pytest
from tests.client.restartable import RestartableServer
from tests.client.scripted_server import Script, failure, serving

from askd.client import AsyncClient, RequestError, WatchItem
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.wire.json import word

UNAVAILABLE = failure(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")


def told(item: WatchItem) -> tuple[str, int | None]:
    """An item in short: what it tells, and its event's revision or where to resume."""
    if item.event is None:
        return ("synced" if item.synced else "heartbeat", item.revision)
    return word(pb.AskEventType.Name(item.event.type), "ASK_EVENT_TYPE_"), item.event.revision


async def collect(items: AsyncIterator[WatchItem], count: int) -> list[tuple[str, int | None]]:
    """The next things told, heartbeats left out."""
    found: list[tuple[str, int | None]] = []
    while len(found) < count:
        item = await anext(items)
        if item.event is not None or item.synced:
            found.append(told(item))
    return found


async def test_a_watch_tells_what_is_pending_and_then_what_happens(client: AsyncClient) -> None:
    first, second = await client.ask("x", session="s"), await client.ask("y", session="s")
    await client.cancel(first.id)
    async with aclosing(client.watch()) as items:
        assert await collect(items, 2) == [("pending", 2), ("synced", 3)]
        await client.answer(second.id, "yes")
        await client.ask("z", session="s")
        assert await collect(items, 2) == [("answered", 4), ("asked", 5)]


async def test_a_watch_resumes_after_the_revision_of_any_item(client: AsyncClient) -> None:
    for _ in range(3):
        await client.ask("x", session="s")
    async with aclosing(client.watch(after=0)) as items:
        seen = [await anext(items) for _ in range(4)]
    assert [told(item) for item in seen] == [("asked", 1), ("asked", 2), ("asked", 3), ("synced", 3)]
    for index, item in enumerate(seen):
        async with aclosing(client.watch(after=item.revision)) as rest:
            assert await collect(rest, 3 - min(index, 2)) == [told(later) for later in seen[min(index + 1, 3) :]]


async def test_a_watch_tells_what_its_filters_say(client: AsyncClient) -> None:
    first = await client.ask("x", session="s", turn="t")
    await client.ask("x", session="other")
    await client.answer(first.id, "yes")
    async with aclosing(client.watch(session="s", turn="t", statuses=["answered"], after=0)) as items:
        assert await collect(items, 2) == [("answered", 3), ("synced", 3)]


async def test_a_refused_watch_raises(client: AsyncClient) -> None:
    with pytest.raises(RequestError) as refusal:
        await anext(client.watch(after=7))
    assert (refusal.value.code, refusal.value.field) == ("invalid_arguments", "after_revision")


async def test_a_watch_of_no_server_raises_when_patience_ends() -> None:
    async with AsyncClient("127.0.0.1:1", patience=0.2) as client:
        with pytest.raises(RequestError) as refusal:
            await anext(client.watch())
    assert refusal.value.code == "unavailable"


async def test_a_watch_outlives_kills_of_the_server_and_tells_every_event_once(
    client: AsyncClient, mortal_server: RestartableServer
) -> None:
    async with aclosing(client.watch()) as items:
        assert await collect(items, 1) == [("synced", 0)]
        for revision in (1, 5):
            asks = [await client.ask("x", session="s") for _ in range(3)]
            watching = asyncio.create_task(collect(items, 4))
            await asyncio.to_thread(mortal_server.kill)
            await asyncio.to_thread(mortal_server.start)
            await client.cancel(asks[0].id)
            events = zip(("asked", "asked", "asked", "cancelled"), range(revision, revision + 4), strict=True)
            assert await watching == list(events)


async def test_a_wait_outlives_a_restart_of_the_server(client: AsyncClient, mortal_server: RestartableServer) -> None:
    ask = await client.ask("x", session="s")
    waiting = asyncio.create_task(client.wait(ask.id, timeout=30))
    await asyncio.to_thread(mortal_server.stop)
    await asyncio.to_thread(mortal_server.start)
    await client.answer(ask.id, "yes")
    assert (await waiting).answers[0].text == "yes"


async def test_a_wait_has_the_patience_of_its_own_time() -> None:
    ask = pb.AskState(id="que_1", status=pb.ASK_STATUS_PENDING)
    wait = Script(rpc.WaitAskResponse(ask=ask), UNAVAILABLE, rpc.WaitAskResponse(ask=answered(1, 2).ask))
    async with (
        serving(GetAsk=Script(rpc.GetAskResponse(ask=ask)), WaitAsk=wait) as address,
        AsyncClient(address, patience=0) as client,
    ):
        assert (await client.wait("que_1", timeout=30)).status == pb.ASK_STATUS_ANSWERED
    assert len(wait.requests) == 3


def pending(revision: int) -> pb.AskEvent:
    """An ask of a snapshot."""
    ask = pb.AskState(id=f"que_{revision}", status=pb.ASK_STATUS_PENDING, created_revision=revision)
    return pb.AskEvent(type=pb.ASK_EVENT_TYPE_PENDING, revision=revision, ask=ask)


def asked(revision: int) -> pb.AskEvent:
    """A new ask."""
    return pb.AskEvent(type=pb.ASK_EVENT_TYPE_ASKED, revision=revision, ask=pending(revision).ask)


def response(*events: pb.AskEvent, **fields: Any) -> rpc.WatchAsksResponse:
    """One response of a watch."""
    return rpc.WatchAsksResponse(events=events, **fields)


async def watched(script: Script, count: int, statuses: tuple[str, ...] = (), **others: Script) -> list[Any]:
    """The first things that a watch of a scripted server tells."""
    async with (
        serving(WatchAsks=script, **others) as address,
        AsyncClient(address) as client,
        aclosing(client.watch(statuses=statuses)) as items,
    ):
        return [told(await anext(items)) for _ in range(count)]


def answered(revision: int, resolved: int) -> rpc.GetAskResponse:
    """An ask that was answered."""
    return rpc.GetAskResponse(
        ask=pb.AskState(
            id=f"que_{revision}",
            status=pb.ASK_STATUS_ANSWERED,
            created_revision=revision,
            resolved_revision=resolved,
        )
    )


async def test_a_snapshot_that_breaks_off_is_told_once_with_what_was_resolved_meanwhile() -> None:
    script = Script(
        [response(pending(1), pending(2)), response(pending(3)), UNAVAILABLE],
        [response(pending(2)), UNAVAILABLE],
        [response(pending(2), pending(6)), response(revision=7, synced=True), response(asked(8), revision=8)],
    )
    gets = Script(answered(1, 7), answered(3, 5))
    assert await watched(script, 8, GetAsk=gets) == [
        ("pending", 1),
        ("pending", 2),
        ("pending", 3),
        ("pending", 6),
        ("answered", 5),
        ("answered", 7),
        ("synced", 7),
        ("asked", 8),
    ]
    assert [request.ask_id for request in gets.requests] == ["que_1", "que_3"]
    assert not any(request.HasField("after_revision") for request in script.requests)


async def test_what_a_filter_leaves_out_stays_out_after_a_broken_snapshot() -> None:
    script = Script([response(pending(1)), UNAVAILABLE], [response(revision=2, synced=True)])
    things = await watched(script, 2, statuses=("pending",), GetAsk=Script(answered(1, 2)))
    assert things == [("pending", 1), ("synced", 2)]


async def test_a_watch_resumes_after_the_last_response_and_is_synced_once() -> None:
    script = Script(
        [response(pending(1), revision=4, synced=True), response(asked(5), revision=7), UNAVAILABLE],
        [response(revision=7, synced=True), response(revision=9), grpc.StatusCode.UNAVAILABLE],
        [response(asked(9), asked(10), revision=10)],
    )
    things = await watched(script, 7)
    assert things[:3] == [("pending", 1), ("synced", 4), ("asked", 5)]
    assert things[3:] == [("heartbeat", 7), ("heartbeat", 7), ("heartbeat", 9), ("asked", 10)]
    assert [request.after_revision for request in script.requests[1:]] == [7, 9]


async def test_a_watch_ends_with_a_refusal_after_it_reconnected() -> None:
    revoked = failure(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED")
    script = Script([response(revision=1, synced=True), UNAVAILABLE], [revoked])
    with pytest.raises(RequestError) as refusal:
        await watched(script, 2)
    assert refusal.value.code == "unauthenticated"
