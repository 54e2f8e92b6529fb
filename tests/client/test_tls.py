"""TLS and mutual TLS with real servers (CONTRACT section 10)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.client.certificates import Authority
from tests.client.test_requests import code_of
from tests.processes import ServerProcess, serving

from askd.client import AsyncClient, Client, tls_credentials


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whom servers and clients trust."""
    return Authority(tmp_path_factory.mktemp("tls") / "authority")


def serve(authority: Authority, folder: Path, *options: str) -> Iterator[ServerProcess]:
    """A server with a certificate."""
    own = authority.issue("server")
    with serving(folder / "data", "--tls-cert", str(own.cert), "--tls-key", str(own.key), *options) as server:
        yield server


@pytest.fixture(scope="module")
def tls_server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that shows a certificate."""
    yield from serve(authority, tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def mutual_server(authority: Authority, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that demands one as well."""
    yield from serve(authority, tmp_path_factory.mktemp("mutual"), "--client-ca", str(authority.ca))


async def code(server: ServerProcess, **files: Path) -> str:
    """The code of the refusal of a client with such credentials."""
    credentials = tls_credentials(**files) if files else None
    async with AsyncClient(server.address, server.credential, patience=0, credentials=credentials) as client:
        return await code_of(client.who_am_i())


async def test_a_client_calls_over_tls(tls_server: ServerProcess, authority: Authority) -> None:
    credentials = tls_credentials(ca=authority.ca)
    async with AsyncClient(tls_server.address, tls_server.credential, credentials=credentials) as client:
        ask = await client.ask("x", session="s")
        async with client.turn("s") as turn:
            assert (await client.list_page()).asks == [ask]
    assert turn.outcome == "completed"


async def test_who_is_not_trusted_is_not_called(
    tls_server: ServerProcess, authority: Authority, tmp_path: Path
) -> None:
    assert await code(tls_server) == "unavailable"
    assert await code(tls_server, ca=Authority(tmp_path / "other").ca) == "unavailable"
    own = authority.issue("client")
    assert await code(tls_server, cert=own.cert, key=own.key) == "unavailable"


def test_a_client_shows_its_certificate(mutual_server: ServerProcess, authority: Authority) -> None:
    own = authority.issue("client")
    credentials = tls_credentials(ca=str(authority.ca), cert=str(own.cert), key=str(own.key))
    with Client(mutual_server.address, mutual_server.credential, credentials=credentials) as client:
        assert client.who_am_i().principal.startswith("key:")


async def test_a_certificate_is_demanded_and_checked(
    mutual_server: ServerProcess, authority: Authority, tmp_path: Path
) -> None:
    assert await code(mutual_server, ca=authority.ca) == "unavailable"
    stranger = Authority(tmp_path / "other").issue("client")
    assert await code(mutual_server, ca=authority.ca, cert=stranger.cert, key=stranger.key) == "unavailable"


@pytest.mark.parametrize(
    "files", [{"cert": "a.pem"}, {"ca": "a.pem", "key": "a.key"}], ids=["no key", "no certificate"]
)
def test_a_certificate_goes_with_its_key(files: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="go together"):
        tls_credentials(**files)


def test_a_file_that_is_not_there_or_no_certificate(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        tls_credentials(ca=tmp_path / "none.pem")
    (tmp_path / "other.pem").write_text("nothing")
    with pytest.raises(ValueError, match="no PEM file"):
        tls_credentials(ca=tmp_path / "other.pem")
