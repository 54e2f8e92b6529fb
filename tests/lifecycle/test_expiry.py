"""Expiry (CONTRACT section 4)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.clients import CANCELLED, PENDING, connected, refusal, span
from tests.conditions import eventually
from tests.lifecycle.times import DAY, SECOND, Clock
from tests.processes import serving
from tests.servers import served

from askd.v1 import ask_pb2

EXPIRED = ask_pb2.CANCEL_REASON_EXPIRED


async def test_a_due_ask_is_cancelled_by_nobody_at_the_time_it_happened(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock, database_settings) as server:
        asked = await server.admin.ask(expires_in=span(10))
        assert asked.expires_at.ToMicroseconds() == asked.created_at.ToMicroseconds() + 10 * SECOND
        clock.now += 10 * SECOND - 1
        await server.server.sweeper.run_once()
        assert (await server.admin.get(asked.id)).status == PENDING
        clock.now += SECOND
        await server.server.sweeper.run_once()
        expired = await server.admin.get(asked.id)
        assert (expired.status, expired.cancel_reason) == (CANCELLED, EXPIRED)
        assert expired.WhichOneof("resolved_by") is None
        assert expired.cancelled_at.ToMicroseconds() == clock.now
        assert expired.expires_at == asked.expires_at


async def test_a_command_after_the_time_expires_the_ask_first(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock, database_settings) as server:
        admin = server.admin
        for attempt in (admin.answer, admin.reject, admin.cancel):
            asked = await admin.ask(expires_in=span(2))
            clock.now += 2 * SECOND
            refused = await refusal(attempt(asked.id))
            assert refused.reason == "ask_already_resolved"
            assert (refused.metadata["status"], refused.metadata["resolved_by"]) == ("cancelled", "")
            assert (await admin.get(asked.id)).cancel_reason == EXPIRED
        async with admin.watch(after_revision=0) as watcher:
            types = [event.type for event in await watcher.events(6)]
        assert types == [ask_pb2.ASK_EVENT_TYPE_ASKED, ask_pb2.ASK_EVENT_TYPE_CANCELLED] * 3


@pytest.mark.parametrize("seconds", [0, 0.999999, 365 * 86400 + 1, -1])
async def test_an_expiry_is_one_second_to_365_days(tmp_path: Path, seconds: float) -> None:
    async with served(tmp_path / "data") as server:
        refused = await refusal(server.admin.ask(expires_in=span(seconds)))
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("expires_in",))


async def test_the_bounds_themselves_are_legal(tmp_path: Path) -> None:
    async with served(tmp_path / "data", Clock()) as server:
        for seconds in (1, 365 * 86400):
            assert (await server.admin.ask(expires_in=span(seconds))).status == PENDING


async def test_a_request_id_compares_the_expiry(tmp_path: Path) -> None:
    async with served(tmp_path / "data") as server:
        first = await server.admin.ask(request_id="r", expires_in=span(60))
        assert await server.admin.ask(request_id="r", expires_in=span(60)) == first
        for other in (span(61), None):
            refused = await refusal(server.admin.ask(request_id="r", expires_in=other))
            assert refused.reason == "request_id_conflict"


async def test_a_wait_is_told_of_an_expiry(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as server:
        asked = await server.admin.ask(expires_in=span(1))
        assert (await server.admin.wait(asked.id)).cancel_reason == EXPIRED


async def test_a_wait_that_ends_early_changes_nothing(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as server:
        asked = await server.admin.ask()
        assert (await server.admin.wait(asked.id, 0)) == asked
        waiting = asyncio.create_task(server.admin.wait(asked.id))
        await eventually(lambda: server.server.interceptor.under_way["wait"] == 1)
        waiting.cancel()
        await eventually(lambda: server.server.interceptor.under_way["wait"] == 0)
        assert await server.admin.get(asked.id) == asked


async def test_an_ask_expires_across_a_restart_in_any_time_zone(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    settings: dict[str, Any] = {"TZ": "Pacific/Kiritimati"}
    with serving(tmp_path / "data", **settings, **database_settings) as process:
        async with connected(process.address, process.credential) as client:
            asked = await client.ask(expires_in=span(1))
        process.kill()
    with serving(tmp_path / "data", TZ="America/St_Johns", **database_settings) as process:
        async with connected(process.address, process.credential) as client:
            expired = await client.wait(asked.id)
    assert expired.cancel_reason == EXPIRED
    late = expired.cancelled_at.ToMicroseconds() - asked.expires_at.ToMicroseconds()
    assert late >= 0, "expired before its time"


async def test_a_clock_that_steps_back_expires_nothing_early_and_resolves_nothing_before_it_was_asked(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock, database_settings) as server:
        asked = await server.admin.ask(expires_in=span(10))
        clock.now -= DAY
        await server.server.sweeper.run_once()
        assert (await server.admin.get(asked.id)).status == PENDING
        answered = await server.admin.answer(asked.id)
        assert answered.answered_at.ToMicroseconds() >= answered.created_at.ToMicroseconds()


async def test_a_sweep_takes_every_due_ask_of_every_workspace_once(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock, database_settings) as server:
        admin = server.admin
        names = [f"w{number % 3}" for number in range(250)]
        await asyncio.gather(*(admin.ask(workspace_id=name, expires_in=span(5)) for name in names))
        clock.now += 5 * SECOND
        await asyncio.gather(*(server.server.sweeper.run_once() for _ in range(3)))
        for name in set(names):
            expired = await admin.list_all(workspace_id=name)
            assert {ask.cancel_reason for ask in expired} == {EXPIRED}
            revisions = {ask.created_revision for ask in expired} | {ask.resolved_revision for ask in expired}
            assert revisions == set(range(1, 2 * names.count(name) + 1))


async def test_others_are_served_while_many_asks_expire(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock) as server:
        admin = server.admin
        await asyncio.gather(*(admin.ask(expires_in=span(5)) for _ in range(1000)))
        clock.now += 5 * SECOND
        sweeping = asyncio.create_task(server.server.sweeper.run_once())
        during = 0
        while not sweeping.done():
            asked = await admin.ask(session_id="other")
            await admin.answer(asked.id)
            during += 1
        await sweeping

        async def is_swept() -> bool:
            return not await admin.list_all(statuses=[PENDING])

        await eventually(is_swept)
        # Fewer would mean that they waited for the whole sweep, which has forty chunks.
        assert during >= 5
