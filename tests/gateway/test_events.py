"""Dialect B's event stream: a snapshot, then every change once and in order, across whatever happens in between."""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.client.scripted_server import Script, failure
from tests.client.scripted_server import serving as scripted
from tests.clients import Client, connected
from tests.conditions import eventually
from tests.gateway.places import Place, asks, bearer, calling, gateway_to, path, place_on
from tests.gateway.streams import Event, Stream, listening
from tests.processes import end, serving, start
from tests.questions import choice_question, chosen, text, text_question

from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc

pytestmark = pytest.mark.asyncio(loop_scope="session")


def summary(events: list[Event]) -> list[tuple[str, Any]]:
    """Names and ids of requests."""
    return [(event.name, event.data.get("request", {}).get("id")) for event in events]


async def test_a_snapshot_then_changes(place: Place) -> None:
    first, second = await place.ask(), await place.ask(choice_question("a", "b", allow_custom=True, multiple=True))
    requests = await place.pending()
    async with listening(place.http, place.questions("events")) as stream:
        assert 1000 <= stream.retry <= 3000 or stream.retry == 0
        snapshot = await stream.until("synced")
        third = await place.ask()
        await place.answer(second.id, chosen("b", custom="mine"))
        await place.reject(first.id)
        await place.cancel(third.id)
        live = await stream.events(4)
    assert [event.data for event in snapshot] == [
        {"type": "pending", "revision": 1, "request": requests[0]},
        {"type": "pending", "revision": 2, "request": requests[1]},
        {"type": "synced", "revision": 2},
    ]
    # Inside the snapshot there is nothing to resume after.
    assert [event.last_id for event in snapshot] == ["", "", "2"]
    assert [(event.name, event.last_id, event.data["revision"]) for event in live] == [
        ("asked", "3", 3), ("answered", "4", 4), ("rejected", "5", 5), ("cancelled", "6", 6),
    ]  # fmt: skip
    assert [event.data["type"] for event in live] == [event.name for event in live]
    assert live[1].data["answers"] == [["B", "mine"]]
    assert live[1].data["request"] == requests[1]
    assert all("answers" not in event.data for event in (live[0], live[2], live[3]))
    assert 1000 <= stream.retry <= 3000


async def test_last_event_id_resumes(place: Place) -> None:
    made = [await place.ask() for _ in range(4)]
    async with listening(place.http, place.questions("events"), after="2") as stream:
        events = await stream.until("synced")
    assert summary(events) == [("asked", made[2].id), ("asked", made[3].id), ("synced", None)]
    async with listening(place.http, place.questions("events"), after="0") as stream:
        assert len(await stream.until("synced")) == 5


@pytest.mark.parametrize("after", ["x", "-1", "1.0", "+1", "\u0661", "9" * 20, "9223372036854775808", "1000"])
async def test_last_event_ids_that_are_none(place: Place, after: str) -> None:
    await place.ask()
    headers = {b"last-event-id": after.encode()}
    response = await place.http.get(place.questions("events"), headers=headers)
    assert (response.status_code, list(response.json()["errors"][0])) == (400, ["Last-Event-ID"])


async def test_the_id_moves_on_where_changes_are_not_for_the_reader() -> None:
    responses = [
        rpc.WatchAsksResponse(revision=4, synced=True),
        rpc.WatchAsksResponse(revision=9),
        rpc.WatchAsksResponse(),
    ]
    async with (
        scripted(WatchAsks=Script(responses)) as address,
        gateway_to(address) as gateway,
        calling(gateway, bearer("x")) as http,
        listening(http, path("api", "v1", "workspaces", "w", "questions", "events")) as stream,
    ):
        assert (await stream.event()).last_id == "4"
        await stream.comment()
        assert stream.last_id == "9"
        await stream.comment()
        assert stream.last_id == "9"


async def test_an_expired_payload_has_no_questions() -> None:
    ask = pb.AskState(id="que_1", session_id="s", status=pb.ASK_STATUS_ANSWERED, payload_expired=True)
    event = pb.AskEvent(type=pb.ASK_EVENT_TYPE_ANSWERED, revision=2, ask=ask)
    response = rpc.WatchAsksResponse(events=[event], revision=2, synced=True)
    async with (
        scripted(WatchAsks=Script([response])) as address,
        gateway_to(address) as gateway,
        calling(gateway, bearer("x")) as http,
        listening(http, path("api", "v1", "workspaces", "w", "questions", "events"), after="1") as stream,
    ):
        data = (await stream.event()).data
    assert data == {"type": "answered", "revision": 2, "request": {"id": "que_1", "sessionID": "s", "questions": []}}


async def test_a_large_snapshot_flows(place: Place) -> None:
    large = text_question("x" * 30_000)
    made = [(await place.ask(large, turn_id=str(number))).id for number in range(220)]
    async with listening(place.http, place.questions("events")) as stream:
        events = await stream.until("synced")
    assert summary(events) == [*(("pending", ask_id) for ask_id in made), ("synced", None)]


# --- ends ---


async def test_a_refused_watch_has_a_status(place: Place) -> None:
    elsewhere = path("api", "v1", "workspaces", "elsewhere", "questions", "events")
    response = await place.http.get(elsewhere)
    assert (response.status_code, list(response.json()["errors"][0])) == (403, ["permission_denied"])
    response = await place.http.get(place.questions("events"), headers=bearer("askd_nobody"))
    assert response.status_code == 401


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (failure(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", retry=0.1), "unavailable"),
        (failure(grpc.StatusCode.UNAUTHENTICATED, "UNAUTHENTICATED"), "unauthenticated"),
        (grpc.StatusCode.INTERNAL, "internal"),
    ],
)
async def test_the_last_event_says_why_the_server_ended_the_stream(status: Any, code: str) -> None:
    steps = [rpc.WatchAsksResponse(revision=4, synced=True), status]
    async with (
        scripted(WatchAsks=Script(steps, [steps[0]], steps)) as address,
        gateway_to(address) as gateway,
        calling(gateway, bearer("x")) as http,
    ):
        async with listening(http, path("api", "v1", "workspaces", "w", "questions", "events")) as stream:
            events = await stream.until("end")
            await stream.ends()
        assert events[-1].data == {"type": "end", "code": code, "message": events[-1].data["message"]}
        # The client comes back to where it was.
        assert events[-1].last_id == "4"
        async with listening(http, "/event") as stream:
            await stream.event()
            last = (await stream.event()).data
            await stream.ends()
        assert (last["type"], last["properties"]["code"]) == ("global.disposed", code)


async def test_a_revoked_key_ends_its_streams(place: Place, root: Client) -> None:
    async with listening(place.http, place.questions("events")) as stream:
        await stream.until("synced")
        await root.revoke_key(place.key_id)
        end_event = (await stream.until("end"))[-1]
        await stream.ends()
    assert end_event.data["code"] == "unauthenticated"


async def test_a_gateway_that_stops_ends_streams_and_waits(place: Place, gateway: Any, askd: Any) -> None:
    ask = await place.ask()
    async with gateway_to(askd.address) as stopping, calling(stopping, bearer(place.credential)) as http:
        waiting = asyncio.create_task(http.get(asks(ask.id), params={"wait": "300"}, timeout=60))
        async with listening(http, place.questions("events")) as stream, listening(http, "/event") as other:
            await stream.until("synced")
            await other.event()
            await eventually(lambda: len(stopping_calls(stopping)) == 3)
            async with asyncio.timeout(3):
                await stopping.stop()
            assert (await stream.event()).data["code"] == "unavailable"
            await stream.ends()
            assert (await other.event()).data["type"] == "global.disposed"
            await other.ends()
        waited = await waiting
        assert (waited.status_code, waited.json()["error"]["code"]) == (503, "unavailable")
        assert waited.headers["retry-after"] == "1"


def stopping_calls(server: Any) -> Any:
    """The calls upstream that a gateway would end."""
    return server._gateway.upstream._lasting


async def test_a_server_that_drains_ends_streams_and_waits(tmp_path: Path) -> None:
    with serving(tmp_path / "data") as own:
        async with (
            connected(own.address, own.credential) as root,
            gateway_to(own.address) as gateway,
            place_on(gateway, root) as place,
        ):
            ask = await place.ask()
            waiting = asyncio.create_task(place.http.get(asks(ask.id), params={"wait": "300"}, timeout=60))
            async with listening(place.http, place.questions("events")) as stream:
                await stream.until("synced")
                await eventually(lambda: len(stopping_calls(gateway)) == 2)
                assert await asyncio.to_thread(own.terminate) == 0
                assert (await stream.event()).data["code"] == "unavailable"
                await stream.ends()
            assert (await waiting).status_code == 503


# --- gaps ---


async def test_streams_resume_without_a_gap_across_kills(tmp_path: Path) -> None:
    """Readers come back with their last id while asks are made and the server is killed: all see every change once."""
    own = start(tmp_path / "data")
    listen = ("--grpc", own.address, "--http", "off")
    try:
        async with (
            connected(own.address, own.credential) as root,
            gateway_to(own.address) as gateway,
            place_on(gateway, root) as place,
        ):
            readers = [
                asyncio.create_task(read_to_the_end(place, url)) for url in (place.questions("events"), "/event")
            ]
            made = []
            for _ in range(2):
                made += [(await asked_for_certain(place)).id for _ in range(10)]
                await asyncio.to_thread(own.kill)
                end(own.process)
                own = await asyncio.to_thread(start, tmp_path / "data", listen=listen)
            last = await asked_for_certain(place)
            await answered_for_certain(place, last.id)
            everything = [*(("asked", ask_id) for ask_id in [*made, last.id]), ("answered", last.id)]
            events, plain = await asyncio.gather(*readers)
    finally:
        end(own.process)
    assert events == everything
    # The stream without a snapshot may have begun after the first asks.
    assert plain == everything[len(everything) - len(plain) :]
    assert len(plain) > 2


async def asked_for_certain(place: Place) -> pb.AskState:
    """Ask, however often the server is away meanwhile."""
    request_id = uuid.uuid4().hex
    return await for_certain(lambda: place.ask(request_id=request_id))


async def answered_for_certain(place: Place, ask_id: str) -> None:
    await for_certain(lambda: place.answer(ask_id, text()))


async def for_certain(call: Callable[[], Awaitable[pb.AskState]]) -> pb.AskState:
    """Call until the server is there."""
    found: list[pb.AskState] = []

    async def done() -> bool:
        try:
            found.append(await call())
        except grpc.aio.AioRpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
        return bool(found)

    await eventually(done)
    return found[0]


NAMES = {"question.asked": "asked", "question.replied": "answered"}


async def read_to_the_end(place: Place, url: str) -> list[tuple[str, str]]:
    """Every change up to the first answer, read through one stream after the other."""
    seen: list[tuple[str, str]] = []
    last_id = "" if url == "/event" else "0"

    async def read() -> bool:
        nonlocal last_id
        async with place.http.stream("GET", url, headers={"last-event-id": last_id}, timeout=60) as response:
            stream = Stream(response)
            # A server that is away has a status; one that goes away ends the stream.
            while response.status_code == 200 and not (seen and seen[-1][0] == "answered"):
                event = await anext(stream, None)
                if event is None:
                    break
                seen.extend(changes(event))
                last_id = event.last_id or last_id
        return bool(seen) and seen[-1][0] == "answered"

    await eventually(read, within=50)
    return seen


def changes(event: Event) -> list[tuple[str, str]]:
    if event.name in ("asked", "answered"):
        return [(event.name, event.data["request"]["id"])]
    if event.data["type"] in NAMES:
        properties = event.data["properties"]
        return [(NAMES[event.data["type"]], properties.get("requestID", properties.get("id")))]
    return []


async def test_a_hundred_readers_leave_nothing_behind(place: Place, gateway: Any) -> None:
    tasks = len(asyncio.all_tasks())

    async def read() -> None:
        async with listening(place.http, place.questions("events")) as stream:
            await stream.until("synced")

    for _ in range(4):
        await asyncio.gather(*(read() for _ in range(25)))
    await eventually(lambda: not stopping_calls(gateway))
    await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
