"""An authority of a test's own, and certificates of it, as PEM files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

_PEM = serialization.Encoding.PEM
_LOOPBACK = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])


@dataclass(frozen=True)
class Certificate:
    """The files of a certificate and of its key."""

    cert: Path
    key: Path


class Authority:
    """Issues certificates; its own is in `ca`."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._secret = ec.generate_private_key(ec.SECP256R1())

    @cached_property
    def ca(self) -> Path:
        """The authority's certificate."""
        basic = x509.BasicConstraints(ca=True, path_length=None)
        return self._write("ca.pem", self._sign("authority", self._secret.public_key(), basic))

    def issue(self, name: str) -> Certificate:
        """A certificate of 127.0.0.1."""
        secret = ec.generate_private_key(ec.SECP256R1())
        private = secret.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        return Certificate(
            cert=self._write(f"{name}.pem", self._sign(name, secret.public_key(), _LOOPBACK)),
            key=self._write(f"{name}.key", private),
        )

    def _sign(self, name: str, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> bytes:
        now = datetime.now(UTC)
        begin, end = now - timedelta(hours=1), now + timedelta(hours=1)
        builder = x509.CertificateBuilder(
            _name("authority"), _name(name), public, x509.random_serial_number(), begin, end
        ).add_extension(extension, critical=False)
        return builder.sign(self._secret, hashes.SHA256()).public_bytes(_PEM)

    def _write(self, name: str, data: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(data)
        return path


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])
