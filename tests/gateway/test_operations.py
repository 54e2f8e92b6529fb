"""Health, metrics and documentation need no credential."""

import asyncio
import re
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health
from prometheus_client.parser import text_string_to_metric_families
from tests.gateway.places import Place, asks, calling, gateway_to
from tests.gateway.streams import listening

from askd.gateway.dialect_a import DIALECT as A
from askd.gateway.dialect_b import DIALECT as B
from askd.gateway.opencode import DIALECT as OPENCODE
from askd.gateway.server import HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_health_of_a_server_that_serves(gateway: HttpServer) -> None:
    async with calling(gateway) as http:
        for url in ("/healthz", "/readyz"):
            response = await http.get(url)
            assert (response.status_code, response.json()) == (200, {"status": "serving"})


async def test_health_is_what_the_health_service_says() -> None:
    servicer = health.HealthServicer()
    server = grpc.aio.server()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with gateway_to(f"127.0.0.1:{port}") as gateway, calling(gateway) as http:
        await servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
        alive, ready = await http.get("/healthz"), await http.get("/readyz")
        assert (alive.status_code, ready.status_code) == (200, 503)
        assert alive.json() == ready.json() == {"status": "not_serving"}
        await server.stop(0)
        for url in ("/healthz", "/readyz"):
            response = await http.get(url)
            assert (response.status_code, response.json()) == (503, {"status": "unreachable"})


def samples(text: str) -> dict[tuple[str, ...], float]:
    return {
        (sample.name, *(f"{key}={value}" for key, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def test_metrics(askd: Any, place: Place) -> None:
    async with gateway_to(askd.address) as gateway, calling(gateway, dict(place.http.headers)) as http:
        await http.get(asks())
        await http.get("/secret/path")
        async with listening(http, place.questions("events")) as stream:
            await stream.until("synced")
            response = await http.get("/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "secret" not in response.text
    found = samples(response.text)
    route = "path=/v1/sessions/{sessionId}/turns/{turnId}/asks"
    assert found["askd_http_requests_total", "method=GET", route, "status=200"] == 1
    assert found["askd_http_requests_total", "method=GET", "path=unknown", "status=404"] == 1
    assert found["askd_http_request_seconds_count", route] == 1
    assert found["askd_http_open_streams",] == 1


async def test_the_document_describes_every_route(gateway: HttpServer) -> None:
    async with calling(gateway) as http:
        response = await http.get("/openapi.json")
    document = response.json()
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    routes = {(route.method, route.path) for dialect in (A, B, OPENCODE) for route in dialect.routes}
    own = {("GET", path) for path in ("/healthz", "/readyz", "/metrics", "/openapi.json", "/docs")}
    assert described == routes | own
    names = [operation["operationId"] for methods in document["paths"].values() for operation in methods.values()]
    assert len(set(names)) == len(names)


async def test_the_page_loads_nothing(gateway: HttpServer) -> None:
    async with calling(gateway) as http:
        response = await http.get("/docs")
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    assert response.headers["content-security-policy"].startswith("default-src 'none'")
    assert "/v1/sessions/{sessionId}/turns/{turnId}/asks" in response.text
    for word in ("<script", "http://", "https://", "src="):
        assert word not in response.text


async def test_requests_on_one_connection_are_answered_in_turn(gateway: HttpServer) -> None:
    reader, writer = await asyncio.open_connection(gateway.address.host, gateway.address.port)
    writer.write(
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /nothing HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    async with asyncio.timeout(5):
        text = await reader.read()
    writer.close()
    assert re.findall(rb"HTTP/1\.1 (\d+)", text) == [b"200", b"404"]
