"""TLS and mutual TLS (CONTRACT sections 9 and 10)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from tests.access.certificates import Authority
from tests.clients import Client
from tests.processes import run, serving


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "ours")


@asynccontextmanager
async def _calling(address: str, credential: str, credentials: grpc.ChannelCredentials) -> AsyncIterator[Client]:
    async with grpc.aio.secure_channel(address, credentials) as channel:
        yield Client(channel, credential)


async def _fails(client: Client) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await client.who_am_i()
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_a_server_with_a_certificate_speaks_tls_alone(tmp_path: Path, authority: Authority) -> None:
    certificate, key = authority.issue("server")
    trusted = grpc.ssl_channel_credentials(authority.certificate.read_bytes())
    with serving(tmp_path / "data", "--tls-cert", str(certificate), "--tls-key", str(key)) as process:
        async with _calling(process.address, process.credential, trusted) as client:
            await client.who_am_i()
        async with grpc.aio.insecure_channel(process.address) as channel:
            await _fails(Client(channel, process.credential))


async def test_with_a_client_authority_a_client_without_its_certificate_is_turned_away(
    tmp_path: Path, authority: Authority
) -> None:
    certificate, key = authority.issue("server")
    client_certificate, client_key = authority.issue("client")
    stranger_certificate, stranger_key = Authority(tmp_path, "theirs").issue("stranger")
    root = authority.certificate.read_bytes()
    options = ["--tls-cert", str(certificate), "--tls-key", str(key), "--client-ca", str(authority.certificate)]
    with serving(tmp_path / "data", *options) as process:
        known = grpc.ssl_channel_credentials(root, client_key.read_bytes(), client_certificate.read_bytes())
        async with _calling(process.address, process.credential, known) as client:
            await client.who_am_i()
        stranger = grpc.ssl_channel_credentials(root, stranger_key.read_bytes(), stranger_certificate.read_bytes())
        for credentials in (grpc.ssl_channel_credentials(root), stranger):
            async with _calling(process.address, process.credential, credentials) as client:
                await _fails(client)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--tls-cert", "missing.pem"], "tls"),
        (["--client-ca", "missing.pem"], "tls"),
        (["--tls-cert", "missing.pem", "--tls-key", "missing.key"], "missing."),
    ],
)
def test_half_a_tls_setting_ends_the_start_with_a_line_that_names_it(
    tmp_path: Path, options: list[str], named: str
) -> None:
    done = run("serve", "--data-dir", str(tmp_path / "data"), "--grpc", "127.0.0.1:0", "--http", "off", *options)
    assert done.returncode == 1
    assert named in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
