"""What the README shows of HTTP works as it is printed there."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.loud import skip_loudly
from tests.processes import PROGRAM, environment, serving

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text().partition("\n## HTTP\n")[2].partition("\n## ")[0]


def _block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", SECTION, re.DOTALL)
    assert found is not None
    return found[1]


def _values(text: str) -> list[Any]:
    """The JSON values that stand one behind the other."""
    decoder, values, at = json.JSONDecoder(), [], 0
    while at < len(text.rstrip()):
        value, at = decoder.raw_decode(text, at)
        values.append(value)
    return values


def test_the_calls_with_curl(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if shutil.which("curl") is None or shutil.which("bash") is None:
        skip_loudly(request, "curl or bash is missing: the README's calls were NOT tried")
    with serving(tmp_path / "data", listen=("--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0")) as server:
        # Ports are those of a server that was started without settings.
        script = _block("sh").replace("127.0.0.1:8080", server.ready.rpartition("http=")[2])
        settings = {"ASKD_ADDRESS": server.address, "ASKD_KEY": server.credential}
        settings["PATH"] = f"{PROGRAM.parent}:{environment()['PATH']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, timeout=50,
            env=environment(**settings), check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    made, listed, replied, asked, answered, waited = _values(done.stdout)
    assert [question["question"] for question in made["questions"]] == ["Deploy build 7 now?"]
    assert listed == [made]
    assert replied is True
    assert asked["status"] == "pending"
    assert (answered["id"], answered["answer"]) == (asked["id"], "Ada")
    assert waited == answered | {"question": asked["question"]}


def test_the_page_that_a_browser_is_tried_with_is_the_one_that_is_printed() -> None:
    page = (Path(__file__).with_name("browser") / "page.html").read_text()
    *printed, last = _block("js").splitlines()
    assert len(printed) < 10
    assert [line for line in printed if line not in page] == []
    assert last.startswith("for await (const text of stream) ")
    assert "for await (const text of stream) " in page
