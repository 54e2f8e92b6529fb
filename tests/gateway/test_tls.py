"""Calling a server over TLS."""

import ipaddress
from datetime import UTC, datetime, timedelta

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.client.scripted_server import Script
from tests.gateway.places import asks, bearer, calling, gateway_to

from askd.gateway.settings import GatewaySettings
from askd.v1 import ask_service_pb2 as rpc
from askd.v1.ask_service_pb2_grpc import AskServiceServicer, add_AskServiceServicer_to_server

pytestmark = pytest.mark.asyncio(loop_scope="session")


def self_signed() -> tuple[bytes, bytes]:
    """A key and a certificate of 127.0.0.1, in PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return secret, certificate.public_bytes(pem)


async def test_a_server_whose_certificate_is_trusted() -> None:
    key, certificate = self_signed()
    server = grpc.aio.server()
    answering = type("Answering", (AskServiceServicer,), {"ListAsks": Script(rpc.ListAsksResponse()).reply})
    add_AskServiceServicer_to_server(answering(), server)
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([(key, certificate)]))
    await server.start()
    for trusted, status in ((certificate, 200), (self_signed()[1], 503), (None, 503)):
        settings = GatewaySettings(root_certificates=trusted)
        async with gateway_to(f"127.0.0.1:{port}", settings) as gateway, calling(gateway, bearer("x")) as http:
            response = await http.get(asks())
            assert response.status_code == status
            assert status == 200 or response.json()["error"]["message"] == "the askd server cannot be reached"
    await server.stop(0)
