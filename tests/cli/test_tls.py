"""Commands over mutual TLS, with a real server that demands it (CONTRACT section 10)."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.program import Program
from tests.client.certificates import Authority, Certificate
from tests.processes import ServerProcess, serving

from askd.cli import target


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom the server and the program trust."""
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


@pytest.fixture(scope="module")
def own(authority: Authority) -> Certificate:
    """The program's certificate."""
    return authority.issue("program")


@pytest.fixture(scope="module")
def server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """The server."""
    shown = authority.issue("server")
    options = ("--tls-cert", str(shown.cert), "--tls-key", str(shown.key), "--client-ca", str(authority.ca))
    with serving(tmp_path_factory.mktemp("tls") / "data", *options) as process:
        yield process


@pytest.fixture
def askd(server: ServerProcess) -> Program:
    """The program, an admin that knows no certificates."""
    return Program({"ASKD_ADDRESS": server.address, "ASKD_DATA_DIR": str(server.data_dir)})


def test_certificates_are_options(askd: Program, authority: Authority, own: Certificate) -> None:
    files = ("--ca", str(authority.ca), "--cert", str(own.cert), "--key-file", str(own.key))
    ask_id = askd.text("ask", "s", "x", *files).strip()
    for command in (("list",), ("keys", "list"), ("watch", "--until-synced"), ("answer", ask_id, "--text", "yes")):
        assert askd.text(*command, *files)
    assert askd.text("validate", "-", *files, stdin='{"type": "text", "prompt": "x"}') == "valid\n"


def test_certificates_are_variables(askd: Program, authority: Authority, own: Certificate) -> None:
    files = {"ASKD_CA": str(authority.ca), "ASKD_CERT": str(own.cert), "ASKD_KEY_FILE": str(own.key)}
    secure = Program(askd.settings | files)
    assert secure.text("whoami").startswith("key:")
    assert secure.text("turn", "end", "s", "t", "--outcome", "completed") == "completed\n"


def test_a_server_is_not_called_without_them(
    askd: Program, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "PATIENCE", 0.0)
    for files in ((), ("--ca", str(authority.ca))):
        refused = askd.run("whoami", *files)
        assert (refused.code, refused.output) == (1, "")
        assert refused.errors.startswith("error: unavailable: ")


def test_files_that_are_no_certificates_are_refused(askd: Program, own: Certificate, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("nothing")
    for name, why in (("none", "No such file or directory"), ("other", "no PEM file")):
        refused = askd.run("whoami", "--ca", str(tmp_path / name))
        assert (refused.code, refused.errors) == (1, f"error: invalid_arguments: {tmp_path / name}: {why}\n")
    for files in (("--cert", str(own.cert)), ("--key-file", str(own.key))):
        assert askd.run("whoami", *files).code == 2
