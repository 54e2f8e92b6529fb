"""SIGTERM: no new work, streams and waits end, accepted writes finish, exit code 0 (CONTRACT section 10)."""

import asyncio
import signal
import time
from pathlib import Path

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.chaos.test_leaks import gate
from tests.clients import ANSWERED, Client, Refusal, connected, refusal
from tests.conditions import eventually
from tests.processes import ServerProcess, serving
from tests.questions import text_question
from tests.servers import Served, served

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE
#: Seconds that a server may take from the signal to its exit.
DRAIN = 10.0


def check_draining(refused: Refusal) -> None:
    assert (refused.status, refused.reason) == (UNAVAILABLE, "unavailable")
    assert refused.retry_after is not None


async def watch_health(client: Client) -> list[int]:
    """Every status until the stream ends."""
    stub = health_pb2_grpc.HealthStub(client.channel)
    said: list[int] = []
    call = stub.Watch(health_pb2.HealthCheckRequest())

    async def read_on() -> None:
        while True:
            said.append((await call.read()).status)

    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await read_on()
    assert raised.value.code() is UNAVAILABLE
    return said


async def ask_until_down(
    client: Client, name: str, acknowledged: dict[str, str], attempted: set[str], ends: set[grpc.StatusCode]
) -> None:
    """Ask one after another until the server is there no more."""
    number = 0
    while True:
        request_id = f"{name}-{number}"
        number += 1
        attempted.add(request_id)
        try:
            ask = await client.ask(text_question(request_id), request_id=request_id)
        except grpc.aio.AioRpcError as error:
            ends.add(error.code())
            return
        acknowledged[request_id] = ask.id


async def test_a_server_drains_with_everything_open_and_loses_no_write_it_accepted(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    acknowledged: dict[str, str] = {}
    attempted: set[str] = set()
    codes: set[grpc.StatusCode] = set()
    with serving(tmp_path / "data", **database_settings) as server:
        async with (
            connected(server.address, server.credential) as admin,
            connected(server.address, server.credential) as other,
        ):
            pending = await admin.ask(session_id="pending")
            watchers = [admin.watch(**fields) for fields in ({}, {"after_revision": 0}, {"session_id": "quiet"})]
            for watcher in watchers:
                await watcher.until_synced()
            waits = [asyncio.create_task(refusal(admin.wait(pending.id, 60, deadline=None))) for _ in range(5)]
            health = asyncio.create_task(watch_health(admin))
            askers = [
                asyncio.create_task(ask_until_down(other, f"asker-{number}", acknowledged, attempted, codes))
                for number in range(20)
            ]
            await eventually(lambda: len(acknowledged) > 100)
            server.signal(signal.SIGTERM)
            begin = time.monotonic()
            ends = [await watcher.end() for watcher in watchers]
            for refused in [*ends, *await asyncio.gather(*waits)]:
                check_draining(refused)
            await asyncio.gather(*askers)
            assert codes == {UNAVAILABLE}, "what a client may try again after, and nothing else"
            said = await health
            assert said[-1] == health_pb2.HealthCheckResponse.NOT_SERVING
            assert await asyncio.to_thread(server.wait) == 0
            assert time.monotonic() - begin < DRAIN
    with serving(tmp_path / "data", **database_settings) as server:
        async with connected(server.address, server.credential) as admin:
            asks = {ask.questions[0].prompt[0].text: ask.id for ask in await admin.list_all(session_id="s", limit=100)}
            assert acknowledged.items() <= asks.items(), "what was acknowledged is there"
            assert asks.keys() <= attempted
            for request_id in attempted - acknowledged.keys():  # each is there once, or not yet
                ask = await admin.ask(text_question(request_id), request_id=request_id)
                assert asks.setdefault(request_id, ask.id) == ask.id


async def test_a_second_signal_changes_nothing(process: ServerProcess, process_admin: Client) -> None:
    watcher = process_admin.watch()
    await watcher.until_synced()
    process.signal(signal.SIGTERM)
    check_draining(await watcher.end())
    if process.process.poll() is None:
        process.signal(signal.SIGTERM)
    assert await asyncio.to_thread(process.wait) == 0


async def test_a_write_that_was_accepted_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(tmp_path / "data") as server:
        with gate(server, monkeypatch) as held:
            asking = asyncio.create_task(server.admin.ask(request_id="r"))
            await eventually(held.come.is_set)
            draining = asyncio.create_task(server.drain())
            await eventually(lambda: server.server.health.servicer._server_status[""] == 2)
            async with connected(server.address, server.credential) as late:
                with pytest.raises(grpc.aio.AioRpcError) as raised:
                    await late.ask()
                assert raised.value.code() is UNAVAILABLE
            assert not asking.done()
            assert not draining.done()
            held.passing.set()
            ask = await asking
            await draining
    async with served(tmp_path / "data") as again:
        assert await again.admin.get(ask.id) == ask


async def test_a_write_that_hangs_does_not_keep_the_server_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("askd.server.app.GRACE", 0.3)
    async with served(tmp_path / "data") as server:
        with gate(server, monkeypatch) as held:
            asking = asyncio.create_task(_code(server.admin))
            await eventually(held.come.is_set)
            draining = asyncio.create_task(server.drain())
            await asyncio.wait([asking], timeout=5)
            told = asking.done()
            held.passing.set()
            await draining
            assert told, "the caller is told before the write is over"
            assert asking.result() is UNAVAILABLE


async def _code(client: Client) -> grpc.StatusCode:
    try:
        await client.ask()
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


async def test_a_watcher_that_does_not_read_does_not_keep_the_server_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("askd.server.app.GRACE", 0.3)
    async with served(tmp_path / "data") as server, connected(server.address, server.credential) as client:
        watcher = client.watch()
        await watcher.until_synced()
        for _ in range(12):
            await server.admin.ask(*[text_question("x" * 250_000)] * 4)
        await asyncio.wait_for(server.drain(), 5)
        watcher.call.cancel()


async def test_draining_leaves_no_task_and_no_file_behind(tmp_path: Path, database_settings: dict[str, str]) -> None:
    before = asyncio.all_tasks()
    async with served(tmp_path / "data", environment=database_settings) as server:
        ask = await server.admin.ask()
        assert (await server.admin.answer(ask.id)).status == ANSWERED
        async with server.admin.watch() as watcher:
            await watcher.until_synced()
    await eventually(lambda: _tasks_but(before) == set())
    assert not (tmp_path / "data" / "askd.db-wal").exists(), "the last connection folds the log into the file"


def _tasks_but(before: set[asyncio.Task[object]]) -> set[str]:
    # gRPC's own tasks belong to the event loop.
    names = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - before if task.get_coro()}  # type: ignore[union-attr]
    return {name for name in names if "_" not in name.split(".")[0]}


async def test_an_idle_server_drains_at_once(server: Served) -> None:
    begin = time.monotonic()
    await server.drain()
    assert time.monotonic() - begin < 3
