"""Health and reflection, which need no credential and are not wrapped (CONTRACT section 5)."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from sqlalchemy.exc import OperationalError
from tests.clients import LIMIT, Client, connected, refusal
from tests.conditions import eventually
from tests.server.test_access import listed_services
from tests.servers import Served, served

from askd.config import load
from askd.server.app import Server, open_store
from askd.server.interceptor import BOUNDS
from askd.store.database import StartError

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVICE_UNKNOWN = health_pb2.HealthCheckResponse.SERVICE_UNKNOWN
#: Seconds within which health follows the database.
SOON = 8.0


async def test_the_server_and_each_service_are_serving(admin: Client) -> None:
    services = await listed_services(admin)
    assert {"askd.v1.AskService", "askd.v1.KeyService", "grpc.health.v1.Health"} <= services
    for service in ("", *[name for name in services if name.startswith("askd.")]):
        assert await admin.other(None).health(service) == "SERVING"


async def test_an_unknown_service_has_no_health(admin: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await admin.health("askd.v1.Nothing")
    assert raised.value.code() is grpc.StatusCode.NOT_FOUND


async def test_nothing_is_serving_before_the_first_look_at_the_database(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    database = {"url": database_settings.get("ASKD_DATABASE_URL", "")}
    settings = load({"data_dir": tmp_path / "data", "grpc": {"listen": "127.0.0.1:0"}, "database": database}, {})
    server = Server(settings, await open_store(settings))
    try:
        said: list[int] = []
        started = server._grpc.start

        async def start() -> None:
            response = await server.health.servicer.Check(health_pb2.HealthCheckRequest(), None)
            said.append(response.status)
            await started()

        server._grpc.start = start  # type: ignore[method-assign]
        await server.start()
        assert said == [SERVING], "clients that come find the truth"
    finally:
        await server.drain()


def watch(client: Client, service: str = "") -> Any:
    stub = health_pb2_grpc.HealthStub(client.channel)
    return stub.Watch(health_pb2.HealthCheckRequest(service=service))


async def status_of(call: Any) -> int:
    response = await asyncio.wait_for(call.read(), LIMIT)
    return int(response.status)


async def test_health_can_be_watched(admin: Client) -> None:
    for service, status in (("", SERVING), ("askd.v1.KeyService", SERVING), ("x", SERVICE_UNKNOWN)):
        call = watch(admin.other(None), service)
        assert await status_of(call) == status
        call.cancel()


async def test_health_follows_the_database(server: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> None:
        raise OperationalError("SELECT secret", {}, OSError("/path/of/askd.db"))

    call = watch(server.admin)
    assert await status_of(call) == SERVING
    with monkeypatch.context() as patch:
        patch.setattr(server.database, "write", fail)
        assert await status_of(call) == NOT_SERVING
        assert await server.admin.health("askd.v1.AskService") == "NOT_SERVING"
        refused = await refusal(server.admin.ask())
        assert (refused.status, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "unavailable")
        assert refused.retry_after is not None
        assert refused.retry_after > 0
        assert "secret" not in refused.message
        assert "path" not in refused.message
    assert await status_of(call) == SERVING
    assert (await server.admin.ask()).created_revision == 1
    call.cancel()


async def test_a_bug_does_not_show_its_insides(
    server: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(*_: object) -> None:
        raise ValueError("postgresql://user:password@host/db")

    monkeypatch.setattr(server.server.reader, "get", fail)
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await server.admin.get("x")
    assert raised.value.code() is grpc.StatusCode.INTERNAL
    assert "password" not in (raised.value.details() or "")
    assert "password" not in str(raised.value.trailing_metadata())
    assert (raised.value.details() or "").rpartition(" ")[2] in caplog.text, "the log can be found by what was said"


async def test_nothing_is_serving_while_draining(tmp_path: Path, database_settings: dict[str, str]) -> None:
    async with served(tmp_path / "data", environment=database_settings) as running:
        call = watch(running.admin)
        assert await status_of(call) == SERVING
        draining = asyncio.create_task(running.drain())
        assert await status_of(call) == NOT_SERVING
        await draining


async def test_reflection_describes_every_service(admin: Client) -> None:
    stub = reflection_pb2_grpc.ServerReflectionStub(admin.other(None).channel)
    call = stub.ServerReflectionInfo()
    for service in await listed_services(admin):
        if service.startswith("askd."):
            await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol=service))
            response: Any = await call.read()
            assert response.file_descriptor_response.file_descriptor_proto
    await call.done_writing()


async def test_health_and_reflection_are_not_bounded_with_the_calls(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in BOUNDS:
        monkeypatch.setitem(BOUNDS, kind, 0)
    for call in (server.admin.who_am_i(), server.admin.wait("x"), server.admin.watch().response()):
        refused = await refusal(call)
        assert (refused.status, refused.reason) == (grpc.StatusCode.UNAVAILABLE, "unavailable")
    assert await server.admin.health() == "SERVING"
    assert await listed_services(server.admin)


async def test_watches_of_health_that_are_given_up_leave_nothing_behind(server: Served) -> None:
    calls = [watch(server.admin) for _ in range(20)]
    for call in calls:
        assert await status_of(call) == SERVING
    before = len(asyncio.all_tasks())
    for call in calls:
        call.cancel()
    await eventually(lambda: len(asyncio.all_tasks()) <= before - 20)


async def test_a_second_server_in_the_same_folder_does_not_start(server: Served, tmp_path: Path) -> None:

    if server.database.hints is not None:
        pytest.skip("several servers share its database")
    with pytest.raises(StartError, match="another server holds"):
        async with served(tmp_path / "data"):
            pass
    async with connected(server.address, server.credential) as client:
        assert (await client.ask()).created_revision == 1
