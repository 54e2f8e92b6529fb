"""Serves the gateway in an event loop that others use too."""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Generator
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from askd.config import Address, Tls
from askd.domain.errors import Code
from askd.gateway.app import Gateway
from askd.gateway.exchange import encode_json

#: Seconds that requests under way have to finish once the gateway stops.
GRACE = 5
# Connections that may wait to be accepted: a thousand browsers come back at once after a restart.
_BACKLOG = 2048


_BAD_REQUEST = (
    b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"
)


class ListenError(Exception):
    """The address cannot be listened on; the message is one line."""


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol with its one refusal in JSON: of what is no HTTP, and so has no path and no dialect."""

    def send_400_response(self, msg: str) -> None:
        error = {"code": Code.INVALID_ARGUMENTS, "message": "the request is no HTTP"}
        body = encode_json({"error": error})
        self.transport.write(_BAD_REQUEST % len(body) + body)
        self.transport.close()


class _Uvicorn(uvicorn.Server):
    """uvicorn without signal handlers: the process has its own."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()


class HttpServer:
    """The gateway on an address. `address` is where it listens, once start() has returned."""

    address: Address

    def __init__(self, gateway: Gateway, listen: Address, tls: Tls | None = None) -> None:
        """Speaks TLS where `tls` names a certificate, and demands one of clients where it names their authority."""
        self._gateway = gateway
        self._listen = listen
        self._uvicorn = _Uvicorn(
            uvicorn.Config(
                gateway, http=_Protocol, ws="none", lifespan="off", log_config=None, access_log=False,
                proxy_headers=False, server_header=False, backlog=_BACKLOG, timeout_graceful_shutdown=GRACE,
                **_tls_options(tls or Tls()),
            )
        )  # fmt: skip
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises ListenError."""
        sock = _bind(self._listen)
        self.address = Address(self._listen.host, sock.getsockname()[1])
        self._serving = asyncio.create_task(self._uvicorn.serve([sock]), name="http")
        await self._uvicorn.listening.wait()

    async def stop(self) -> None:
        """Stop within GRACE and a little: waits and streams end with word of it, other requests finish."""
        self._gateway.drain()
        self._uvicorn.should_exit = True
        if self._serving is not None:
            await self._serving
        await self._gateway.close()


def _tls_options(tls: Tls) -> dict[str, Any]:
    if tls.cert is None:
        return {}
    demand = ssl.CERT_REQUIRED if tls.client_ca else ssl.CERT_NONE
    return {
        "ssl_certfile": tls.cert,
        "ssl_keyfile": tls.key,
        "ssl_ca_certs": str(tls.client_ca) if tls.client_ca else None,
        "ssl_cert_reqs": demand,
    }


def _bind(address: Address) -> socket.socket:
    family = socket.AF_INET6 if ":" in address.host else socket.AF_INET
    # Without the protocol's name asyncio would leave Nagle's algorithm on, and with it 40 ms in many a response.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        if os.name == "posix":  # elsewhere it would let a second program take the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address.host, address.port))
    except OSError as error:
        sock.close()
        raise ListenError(f"cannot listen on {address}: {error.strerror or error}") from error
    return sock
