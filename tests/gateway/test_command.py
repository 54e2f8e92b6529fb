"""The gateway alone, as a process."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from tests.conditions import eventually
from tests.gateway.places import LIMIT, Place, bearer, gateway_to
from tests.gateway.streams import listening
from tests.processes import ServerProcess

from askd.config import Address
from askd.gateway.app import create_app
from askd.gateway.server import HttpServer, ListenError

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAM = """
import asyncio, sys
from askd.config import Address
from askd.gateway.command import run_gateway
asyncio.run(run_gateway(sys.argv[1], Address("127.0.0.1", 0), ["https://page.example"]))
"""


@asynccontextmanager
async def running(upstream: str) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The process and the URL of a gateway that said it is ready."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, upstream, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        async with asyncio.timeout(30):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("askd gateway ready http=127.0.0.1:"), line
        yield process, "http://" + line.split("=")[1].strip()
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_it_serves_until_it_is_told_to_stop(askd: ServerProcess, place: Place, number: signal.Signals) -> None:
    async with (
        running(askd.address) as (process, url),
        httpx.AsyncClient(base_url=url, headers=bearer(place.credential), timeout=LIMIT) as http,
    ):
        assert (await http.get("/readyz")).json() == {"status": "serving"}
        allowed = await http.get(place.questions(), headers={"origin": "https://page.example"})
        assert allowed.headers["access-control-allow-origin"] == "https://page.example"
        async with listening(http, place.questions("events")) as stream:
            await stream.until("synced")
            process.send_signal(number)
            assert (await stream.event()).data["code"] == "unavailable"
            await stream.ends()
        async with asyncio.timeout(5):
            assert await process.wait() == 0


async def test_an_address_that_is_taken(askd: ServerProcess) -> None:
    async with gateway_to(askd.address) as gateway:
        app = create_app(askd.address)
        with pytest.raises(ListenError, match=f"cannot listen on {gateway.address}: "):
            await HttpServer(app, gateway.address).start()
        await app.close()


async def test_responses_are_not_held_back_for_acknowledgements(gateway: HttpServer) -> None:
    """A listening socket without its protocol's name left Nagle's algorithm on: 40 ms in many a response."""
    _, writer = await asyncio.open_connection(gateway.address.host, gateway.address.port)
    connections = gateway._uvicorn.server_state.connections
    await eventually(lambda: bool(connections))
    for connection in connections:
        sock = connection.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    writer.close()
    await writer.wait_closed()


async def test_the_loopback_address_of_ipv6(askd: ServerProcess) -> None:
    server = HttpServer(create_app(askd.address), Address("::1", 0))
    await server.start()
    async with httpx.AsyncClient(base_url=f"http://{server.address}") as http:
        assert (await http.get("/healthz")).status_code == 200
    await server.stop()


async def test_certificates_that_are_none(tmp_path: Path) -> None:
    from askd.gateway.command import run_gateway

    with pytest.raises(FileNotFoundError):
        await run_gateway("127.0.0.1:1", Address("127.0.0.1", 0), root_certificates=tmp_path / "none.pem")
