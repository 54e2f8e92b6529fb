"""Serves the gateway in an event loop that others use too."""

import asyncio
import contextlib
import os
import re
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
from askd.gateway.refusals import HEAD_TOO_LARGE, REQUEST_TIMEOUT

#: Seconds that requests under way have to finish once the gateway stops.
GRACE = 5
# Connections that may wait to be accepted: a thousand browsers come back at once after a restart.
_BACKLOG = 2048


#: Bytes that a request may have before its body and behind it. The parser itself would keep any number of them.
HEAD_BYTES = 64 * 1024
#: Seconds in which the head of a request must have come whole: who sends nothing keeps no connection.
HEAD_SECONDS = 30.0

# Where the parser sees an Upgrade, it takes the body for the other protocol's. Java's client so offers HTTP/2 with its
# first request; whoever offers something may be answered as if it had not (RFC 9110, section 7.8).
_UPGRADE = re.compile(rb"\r\nupgrade:", re.IGNORECASE)

_REFUSED = b"HTTP/1.1 %s\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n"


class ListenError(Exception):
    """The address cannot be listened on; the message is one line."""


class _Protocol(HttpToolsProtocol):
    """uvicorn's protocol with bounds on the head of a request, and with its refusals in JSON: of what has no path yet,
    and so no dialect."""

    # Bytes since the parser last came to the end of a head or to a part of a body.
    _unparsed = 0
    _in_head = True
    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unparsed += len(data)
        super().data_received(_without_upgrade(data) if self._in_head else data)
        if self._unparsed > HEAD_BYTES:
            self._refuse(b"431 Request Header Fields Too Large", HEAD_TOO_LARGE, f"the head is over {HEAD_BYTES} bytes")

    def on_headers_complete(self) -> None:
        self._unparsed = 0
        self._in_head = False
        self._stop_timer()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unparsed = 0
        self._in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if not self.pipeline and not self.transport.is_closing():  # else the next head is there, or none will be
            self._expect_head()
        super().on_response_complete()

    def _expect_head(self) -> None:
        self._stop_timer()
        self._timer = self.loop.call_later(HEAD_SECONDS, self._lose_patience)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _lose_patience(self) -> None:
        if self._unparsed:
            self._refuse(b"408 Request Timeout", REQUEST_TIMEOUT, "the request did not come in time")
        else:
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(b"400 Bad Request", Code.INVALID_ARGUMENTS, "the request is no HTTP")

    def _refuse(self, status: bytes, code: str, message: str) -> None:
        if self.transport.is_closing():
            return
        # Into a response that has begun nothing can be said.
        if self.cycle is None or self.cycle.response_complete or not self.cycle.response_started:
            body = encode_json({"error": {"code": code, "message": message}})
            self.transport.write(_REFUSED % (status, len(body)) + body)
        self.transport.close()


def _without_upgrade(data: bytes) -> bytes:
    """What was received, without an offer in the first head to speak another protocol."""
    end = data.find(b"\r\n\r\n")
    offer = _UPGRADE.search(data, 0, len(data) if end < 0 else end)
    return data[: offer.start()] + b"\r\nx-upgrade:" + data[offer.end() :] if offer else data


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
