"""schemathesis reads /openapi.json, sends what it allows and what it does not, and finds nothing."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest
from tests.processes import ServerProcess

from askd.gateway.server import HttpServer

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROGRAM = Path(sys.executable).with_name("st")
CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.mark.timeout(120)
async def test_the_gateway_does_what_its_document_says(
    gateway: HttpServer, askd: ServerProcess, tmp_path: Path
) -> None:
    process = await asyncio.create_subprocess_exec(
        PROGRAM, "--config-file", CONFIG, "run", f"http://{gateway.address}/openapi.json",
        "--header", f"Authorization: Bearer {askd.credential}", "--warnings", "off",
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, said.decode()
