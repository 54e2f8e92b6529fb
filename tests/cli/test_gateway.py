"""`askd gateway` as a process, in front of a real server (CONTRACT section 10)."""

import signal
from pathlib import Path

import httpx
import pytest
from tests.cli.program import Program
from tests.client.restartable import RestartableServer

from askd.server import logs

LISTEN = ("--http", "127.0.0.1:0")


def test_it_serves_until_it_is_told_to_stop(askd: Program, shared_server: RestartableServer) -> None:
    origins = ("--cors-origin", "https://a.example", "--cors-origin", "https://b.example")
    with askd.started("gateway", "--upstream", shared_server.address, *LISTEN, *origins) as process:
        assert process.stdout is not None
        ready, url = process.stdout.readline().strip().split("=")
        assert ready == "askd gateway ready http"
        headers = {"authorization": f"Bearer {shared_server.key}", "origin": "https://b.example"}
        answer = httpx.get(f"http://{url}/v1/sessions/s/turns/t/asks", headers=headers, trust_env=False)
        assert (answer.status_code, answer.json()) == (200, {"items": []})
        assert answer.headers["access-control-allow-origin"] == "https://b.example"
        process.send_signal(signal.SIGTERM)
        assert process.communicate()[0] == ""
        assert process.returncode == 0


def test_it_does_not_listen_beyond_this_machine(askd: Program) -> None:
    refused = askd.run("gateway", "--upstream", "127.0.0.1:1", "--http", "0.0.0.0:0")
    assert (refused.code, refused.output) == (1, "")
    assert refused.errors == "askd: 0.0.0.0:0 is beyond this machine and has no TLS; give --insecure to allow it\n"


def test_certificates_that_cannot_be_read_end_it(
    askd: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "configure", lambda: None)
    refused = askd.run("gateway", "--upstream", "127.0.0.1:1", *LISTEN, ASKD_CA=str(tmp_path / "none"))
    assert (refused.code, refused.errors) == (1, f"askd: {tmp_path / 'none'}: No such file or directory\n")


@pytest.mark.parametrize("arguments", [LISTEN, ("--upstream", "127.0.0.1:1", "--http", "off")], ids=" ".join)
def test_wrong_usage(askd: Program, arguments: tuple[str, ...]) -> None:
    assert askd.run("gateway", *arguments).code == 2
