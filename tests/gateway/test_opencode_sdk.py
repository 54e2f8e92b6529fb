"""The published npm client of opencode, unmodified, in front of the gateway."""

import asyncio
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.loud import skip_loudly
from tests.gateway.places import Place, asked, choice

from askd.gateway.server import HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

HERE = Path(__file__).with_name("opencode")
NODE = shutil.which("node")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """The client's script, beside the installed package."""
    if NODE is None:
        skip_loudly(request, "Node.js is missing: the published opencode client was NOT tried against the gateway")
    place = tmp_path_factory.mktemp("opencode")
    for name in ("package.json", "package-lock.json", "client.mjs"):
        shutil.copy(HERE / name, place)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return place / "client.mjs"


class Said:
    """What the script says, line by line."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def next(self, name: str) -> Any:
        """The value of the next line, which has this name."""
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        async with asyncio.timeout(20):
            line = await self._process.stdout.readline()
        assert line, (await self._process.stderr.read()).decode()
        said, value = json.loads(line)
        assert said == name, (said, value)
        return value

    async def exit(self) -> int:
        async with asyncio.timeout(20):
            return await self._process.wait()


@asynccontextmanager
async def running(script: Path, gateway: HttpServer, credential: str) -> AsyncIterator[Said]:
    process = await asyncio.create_subprocess_exec(
        "node", str(script), f"http://{gateway.address}", credential, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield Said(process)
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def create(place: Place, **fields: Any) -> Any:
    return (await place.http.post(place.questions(), json=asked(choice("Yes", "No", **fields)))).json()


async def test_it_lists_replies_rejects_and_listens(client: Path, place: Place, gateway: HttpServer) -> None:
    async with running(client, gateway, place.credential) as said:
        assert (await said.next("event"))["type"] == "server.connected"
        requests = [await create(place), await create(place), await create(place, header="last")]
        for request in requests:
            event = await said.next("event")
            assert (event["type"], event["properties"]) == ("question.asked", request)

        assert await said.next("list") == requests
        refused = await said.next("bad input")
        assert (refused["status"], refused["error"]["name"]) == (400, "BadRequest")
        assert await said.next("reply") == {"status": 200, "data": True}
        gone = {
            "_tag": "QuestionNotFoundError",
            "requestID": requests[0]["id"],
            "message": f"Question request not found: {requests[0]['id']}",
        }
        assert await said.next("reply again") == {"status": 404, "error": gone}
        assert await said.next("reject") == {"status": 200, "data": True}
        assert (await said.next("unknown"))["error"]["_tag"] == "QuestionNotFoundError"
        message = f"Question request not found: {requests[1]['id']}"
        assert await said.next("thrown") == {"message": message, "isError": True, "status": 404}

        await place.cancel(requests[2]["id"])
        changes = [await said.next("event") for _ in range(3)]
        assert [(event["type"], event["properties"]) for event in changes] == [
            ("question.replied", {"sessionID": "s", "requestID": requests[0]["id"], "answers": [["Yes"]]}),
            ("question.rejected", {"sessionID": "s", "requestID": requests[1]["id"]}),
            ("question.rejected", {"sessionID": "s", "requestID": requests[2]["id"]}),
        ]
        assert await said.exit() == 0
