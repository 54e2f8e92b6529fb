"""A page of another origin, in a real browser: it lists, answers and listens."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.gateway.loud import skip_loudly
from tests.gateway.places import Place, asked, gateway_to
from tests.processes import ServerProcess

from askd.gateway.settings import GatewaySettings

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = Path(__file__).with_name("browser") / "page.html"
NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
#: Seconds that a browser may take to start and do its work.
LIMIT = 40


class Site:
    """Serves the page, and hears what it reports."""

    def __init__(self) -> None:
        self.report: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("POST /done "):
            length = int(head.lower().partition("content-length: ")[2].split("\r\n")[0])
            self.report.set_result(json.loads(await reader.readexactly(length)))
        body = PAGE.read_bytes() if head.startswith("GET /page.html ") else b""
        kind = "content-type: text/html\r\nconnection: close"
        writer.write(f"HTTP/1.1 200 OK\r\n{kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@asynccontextmanager
async def browsing(program: str, url: str, profile: Path) -> AsyncIterator[None]:
    """A headless browser on a page."""
    # A container has no sandbox of its own to offer, and little shared memory.
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0")
    process = await asyncio.create_subprocess_exec(
        program, *options, f"--user-data-dir={profile}", url, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # the program may be a script that started the browser
        await process.wait()


@pytest.mark.timeout(LIMIT + 20)
async def test_a_page_lists_answers_and_listens(
    place: Place, askd: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        skip_loudly(request, "no Chromium: a page in a real browser was NOT tried against the gateway")
    made = (await place.http.post(place.questions(), json=asked())).json()
    site = Site()
    async with await asyncio.start_server(site.serve, "127.0.0.1", 0) as server:
        origin = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with gateway_to(askd.address, GatewaySettings(cors_origins=(origin,))) as gateway:
            wanted = quote(json.dumps([f"http://{gateway.address}{place.questions()}", place.credential]))
            async with browsing(program, f"{origin}/page.html#{wanted}", tmp_path), asyncio.timeout(LIMIT):
                report = await site.report
    assert report["requests"] == [made]
    assert '"answers":[["Yes"]]' in report["heard"]
    assert await place.pending() == []
