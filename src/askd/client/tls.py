"""Whom a client trusts, and what it shows of itself, over TLS."""

from os import PathLike
from pathlib import Path
from typing import TypeAlias

import grpc

PathName: TypeAlias = str | PathLike[str]


def tls_credentials(
    *, ca: PathName | None = None, cert: PathName | None = None, key: PathName | None = None
) -> grpc.ChannelCredentials:
    """What AsyncClient and Client take as `credentials`, read from PEM files.

    `ca` holds the certificates to trust; without it those that gRPC comes with. `cert`, a certificate chain, and its
    private `key` are for a server that demands a certificate (CONTRACT section 10). Raises OSError for a file that
    cannot be read, and ValueError for one that is no PEM file or where `cert` and `key` do not come together.
    """
    if (cert is None) is not (key is None):
        raise ValueError("a certificate and its private key go together")
    trusted, chain, private = (None if name is None else _read(Path(name)) for name in (ca, cert, key))
    return grpc.ssl_channel_credentials(trusted, private, chain)


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    if b"-----BEGIN " not in data:
        raise ValueError(f"{path}: no PEM file")
    return data
