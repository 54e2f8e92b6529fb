"""Pings and idle streams: what clients and server agree on, and that an idle watch outlives it (DESIGN)."""

import asyncio
from pathlib import Path

import grpc
import pytest
from tests.clients import Client
from tests.processes import configured, serving

#: Seconds between a client's pings: the least that the server puts up with.
LEAST = 10
#: Seconds of a watch on which nothing is sent: beyond the server's own pings, and enough for three strikes.
IDLE = 75

QUIET = '[watch]\nheartbeat = "1h"\n'


@pytest.mark.soak
@pytest.mark.timeout(200)
@pytest.mark.parametrize("pause", [LEAST, 30])
async def test_an_idle_watch_outlives_the_pings_of_both_sides(tmp_path: Path, pause: int) -> None:
    with serving(configured(tmp_path / "data", QUIET)) as server:
        options = [
            ("grpc.keepalive_time_ms", pause * 1000),
            ("grpc.keepalive_timeout_ms", 5_000),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
        ]
        async with grpc.aio.insecure_channel(server.address, options=options) as channel:
            admin = Client(channel, server.credential)
            async with admin.watch() as watcher:
                await watcher.until_synced()
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(_ended(watcher.call)), IDLE)
            async with admin.watch() as watcher:
                await watcher.until_synced()


async def _ended(call: grpc.aio.Call) -> None:
    await call.code()
