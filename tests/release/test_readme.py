"""What README.md prints is done as it is printed, but for the server's address."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path

import grpc
import pytest
from tests.client.scripted_server import Script
from tests.client.scripted_server import serving as scripted
from tests.conformance.drivers import ROOT, chosen, require
from tests.processes import PROGRAM, ServerProcess, environment, serving

from askd import AsyncClient
from askd.v1 import ask_pb2, key_service_pb2
from askd.v1 import ask_service_pb2 as rpc
from askd.v1.ask_service_pb2_grpc import AskServiceStub

pytestmark = [pytest.mark.clients, pytest.mark.timeout(1200)]

README = (ROOT / "README.md").read_text(encoding="utf-8")
PRINTED_ADDRESS = "127.0.0.1:50051"
LIMIT = 500.0  # seconds of all that a section prints, building a client included

SECTIONS = {"python": "From Python", "typescript": "From TypeScript", "go": "From Go"}


def section(title: str) -> str:
    """What stands under a heading."""
    found = re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found[1]


def steps(text: str) -> str:
    """A script that does what a section prints: runs the commands, and saves programs by the names before them."""
    script, name = [], ""
    for found in re.finditer(r"`([\w-]+\.\w+)`|^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if found[1]:
            name = found[1]
        elif found[2] == "sh":
            script.append(found[3])
        elif name.endswith({"python": ".py", "js": ".mjs", "go": ".go"}.get(found[2], " none")):
            script.append(f"cat > {name} <<'END'\n{found[3]}END\n")
            name = ""
    return "".join(script)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("server") / "data") as running:
        yield running


@pytest.fixture
async def answers(server: ServerProcess) -> AsyncIterator[None]:
    """Somebody who says yes to all that is asked."""

    async def answer_all() -> None:
        async with AsyncClient(server.address, server.credential) as client:
            async for item in client.watch():
                if item.event is not None and item.event.ask.status == ask_pb2.ASK_STATUS_PENDING:
                    await client.answer(item.event.ask.id, {"selectedIds": ["yes"]})

    answering = asyncio.create_task(answer_all())
    yield
    answering.cancel()
    with suppress(asyncio.CancelledError):
        await answering


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A folder that looks like the repository, for what the steps leave behind."""
    for name in (".venv", "Makefile", "clients", "protos", "buf.yaml"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


def run(script: str, place: Path, server: ServerProcess, *path: Path) -> str:
    """What a script writes that is run where the server is."""
    paths = os.pathsep.join([*map(str, path), str(PROGRAM.parent), os.environ["PATH"]])
    settings = {"ASKD_ADDRESS": server.address, "ASKD_DATA_DIR": str(server.data_dir), "PATH": paths}
    script = script.replace(PRINTED_ADDRESS, server.address)
    done = subprocess.run(
        ["bash", "-ec", script], cwd=place, env=environment(**settings), capture_output=True, text=True, timeout=LIMIT,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{script}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.mark.parametrize("language", chosen())
@pytest.mark.usefixtures("answers")
async def test_a_quick_start_runs_as_printed(
    language: str, repository: Path, server: ServerProcess, request: pytest.FixtureRequest
) -> None:
    require(language, request)
    said = await asyncio.to_thread(run, steps(section(SECTIONS[language])), repository, server)
    assert re.fullmatch(r"(?i)true says (key:)?key_\w+", said.splitlines()[-1]), said


def test_generic_clients_work_by_reflection(repository: Path, server: ServerProcess) -> None:
    said = run(steps(section("With tools you have")), repository, server)
    asked, health = re.split(r"(?<=^})\n", said.strip(), flags=re.MULTILINE)
    assert json.loads(asked)["ask"]["questions"] == [{"prompt": [{"text": "Which port?"}], "text": {}}]
    assert json.loads(health) == {"status": "SERVING"}


def test_a_client_of_any_language_is_one_command(
    repository: Path, server: ServerProcess, request: pytest.FixtureRequest
) -> None:
    require("typescript", request)
    plugins = ROOT / "clients/typescript/node_modules/.bin"
    run("make typescript\n" + steps(section("From any other language")), repository, server, plugins)
    assert (repository / "gen/askd/v1/ask_service_pb.js").exists()


async def test_the_service_config_spreads_calls_and_repeats_what_a_server_could_not_take() -> None:
    (config,) = re.findall(r"^```json\n(.*?)^```$", section("With tools you have"), re.MULTILINE | re.DOTALL)
    away, there = Script.always(grpc.StatusCode.UNAVAILABLE), Script.always(rpc.GetAskResponse())
    async with scripted(GetAsk=away) as one, scripted(GetAsk=there) as other:
        options = [("grpc.service_config", config), ("grpc.enable_http_proxy", 0)]
        async with grpc.aio.insecure_channel(f"ipv4:{one},{other}", options) as channel:
            get = AskServiceStub(channel).GetAsk
            while not there.requests:  # A channel connects one by one, perhaps first to the one away.
                with suppress(grpc.aio.AioRpcError):
                    await get(rpc.GetAskRequest(ask_id="que_1"), timeout=30)
            away.requests.clear()
            there.requests.clear()
            for _ in range(10):
                await get(rpc.GetAskRequest(ask_id="que_1"), timeout=30)
    assert away.requests
    assert len(there.requests) == 10


async def test_the_python_client_takes_a_service_config() -> None:
    config = json.dumps({"loadBalancingConfig": [{"round_robin": {}}]})
    scripts = [Script.always(key_service_pb2.WhoAmIResponse()) for _ in range(2)]
    async with scripted(WhoAmI=scripts[0]) as one, scripted(WhoAmI=scripts[1]) as other:
        address, options = f"ipv4:{one},{other}", [("grpc.service_config", config), ("grpc.enable_http_proxy", 0)]
        async with AsyncClient(address, channel_options=options) as client:
            while not all(script.requests for script in scripts):
                await client.who_am_i()


@pytest.mark.parametrize(("language", "kind"), [("typescript", "js"), ("go", "go")])
def test_a_client_prints_the_same_quick_start(language: str, kind: str) -> None:
    own = (ROOT / "clients" / language / "README.md").read_text(encoding="utf-8")
    program = re.search(rf"^```{kind}\n.*?^```$", own, re.MULTILINE | re.DOTALL)
    assert program is not None
    assert program[0] in section(SECTIONS[language])
