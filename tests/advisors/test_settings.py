"""`[consult]` of askd.toml, and a server that lacks the packages (CONTRACT section 8)."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.advisors.consulting import advised
from tests.advisors.provider_server import reply
from tests.advisors.wires import CHAT
from tests.processes import run

from askd.config import ConfigError, Rate, load

HOSTED = """
[consult]
rate = "20/minute"
[consult.providers.anthropic]
kind = "anthropic"
api_key_env = "ANTHROPIC_API_KEY"
models = ["claude-sonnet-4-20250514"]
timeout = 60
"""
LOCAL = """
[consult.providers.ollama]
kind = "openai"
base_url = "http://127.0.0.1:11434/v1"
models = ["llama3.2", "qwen3"]
"""
KEYS = {"ANTHROPIC_API_KEY": " sk-secret\n"}


def written(folder: Path, text: str) -> dict[str, Path]:
    (folder / "askd.toml").write_text(text)
    return {"data_dir": folder}


def test_the_contracts_example(tmp_path: Path) -> None:
    consult = load(written(tmp_path, HOSTED), KEYS).consult
    provider = consult.providers["anthropic"]
    assert consult.rate == Rate(20, 60)
    assert (provider.kind, provider.base_url, provider.timeout) == ("anthropic", "", 60)
    assert provider.models == ("claude-sonnet-4-20250514",)
    assert provider.api_key == "sk-secret"
    assert "sk-secret" not in repr(consult)


def test_a_local_provider_needs_neither_key_nor_rate(tmp_path: Path) -> None:
    consult = load(written(tmp_path, LOCAL), {}).consult
    provider = consult.providers["ollama"]
    assert consult.rate == Rate(20, 60)
    assert (provider.api_key, provider.timeout, provider.output) == ("", 60, None)


@pytest.mark.parametrize(
    ("rate", "amount", "seconds"), [("1/second", 1, 1), ("5/hour", 5, 3600), ("99999/day", 99999, 86400)]
)
def test_rates(tmp_path: Path, rate: str, amount: int, seconds: int) -> None:
    assert load(written(tmp_path, f'[consult]\nrate = "{rate}"\n'), {}).consult.rate == Rate(amount, seconds)


MISTAKES = [
    ('[consult]\nrate = "20/min"\n', "consult.rate: "),
    ('[consult]\nrate = "0/minute"\n', "consult.rate: "),
    ("[consult]\nrate = 20\n", "consult.rate: "),
    ("[consult]\nproviders = 1\n", "consult.providers: "),
    ('[consult]\nprovider = "x"\n', "consult.provider: "),
    (LOCAL.replace('"openai"', '"ollama"'), "consult.providers.ollama.kind: "),
    (LOCAL.replace('kind = "openai"', ""), "consult.providers.ollama.kind: "),
    (LOCAL + "timout = 3\n", "consult.providers.ollama.timout: "),
    (LOCAL + "timeout = 0\n", "consult.providers.ollama.timeout: "),
    (LOCAL + 'output = "prose"\n', "consult.providers.ollama.output: "),
    (LOCAL.replace('["llama3.2", "qwen3"]', "[]"), "consult.providers.ollama.models: "),
    (LOCAL.replace('["llama3.2", "qwen3"]', '"llama3.2"'), "consult.providers.ollama.models: "),
    (LOCAL.replace('["llama3.2", "qwen3"]', '[""]'), "consult.providers.ollama.models.0: "),
    (LOCAL.replace("http://", "ftp://"), "consult.providers.ollama.base_url: "),
    (LOCAL.replace("http://", "http://me:secret@"), "consult.providers.ollama.base_url: "),
    (LOCAL.replace(":11434", ":114340"), "consult.providers.ollama.base_url: "),
    (HOSTED.replace('api_key_env = "ANTHROPIC_API_KEY"', ""), "consult.providers.anthropic.api_key_env: "),
    (HOSTED.replace("ANTHROPIC_API_KEY", "sk-ant-secret"), "consult.providers.anthropic.api_key_env: "),
]


@pytest.mark.parametrize(("text", "start"), MISTAKES)
def test_a_mistake_names_its_key_and_repeats_no_secret(tmp_path: Path, text: str, start: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, text), KEYS)
    message = str(raised.value)
    assert message.startswith(start)
    assert "\n" not in message
    assert "secret" not in message


@pytest.mark.parametrize("value", ["", "  ", "sk\nsecret", "sk-sécret"])
def test_a_key_that_is_none_is_a_mistake(tmp_path: Path, value: str) -> None:
    with pytest.raises(ConfigError) as raised:
        load(written(tmp_path, HOSTED), {"ANTHROPIC_API_KEY": value})
    message = str(raised.value)
    assert message.startswith("consult.providers.anthropic.api_key_env: the environment variable ANTHROPIC_API_KEY ")
    assert "sk" not in message


def test_a_mistake_stops_the_start_with_one_line(tmp_path: Path) -> None:
    (tmp_path / "askd.toml").write_text(LOCAL + "timeout = -1\n")
    done = run("serve", "--data-dir", str(tmp_path), "--grpc", "127.0.0.1:0", "--http", "off")
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.startswith("askd: consult.providers.ollama.timeout: ")
    assert done.stderr.count("\n") == 1


async def test_without_the_packages_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with advised(tmp_path, reply(CHAT.advice()), rate="1/day") as place:
        ask = await place.ask()
        with monkeypatch.context() as missing:
            missing.setitem(sys.modules, "askd.advisors.connection", None)
            refused = await place.refused(place.consult(ask.id))
        assert refused.reason == "provider_unavailable"
        assert refused.message == "consulting needs packages that are not installed: pip install 'askd[consult]'"
        assert list((await place.consult(ask.id)).recommendation) == ["A"], "installed now, and not counted before"


def test_nothing_is_imported_before_the_first_consultation() -> None:
    program = "import sys, askd.server.app, askd.cli.serve, askd.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "askd.service.consult" in imported
    assert not imported & {"pydantic_ai", "openai", "anthropic", "google.genai", "httpx2", "limits"}
