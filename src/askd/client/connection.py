"""One channel to a server: its settings, the credential, deadlines and retries."""

import asyncio
import ipaddress
import math
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import grpc

from askd.client import errors
from askd.client.backoff import Backoff
from askd.client.errors import RequestError
from askd.domain.errors import Code

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

RECEIVE_LIMIT = 4 * 1024 * 1024  # bytes of one message: what gRPC clients take by default
KEEPALIVE_TIME = 30_000  # milliseconds of silence before a ping
KEEPALIVE_TIMEOUT = 10_000  # milliseconds that its answer may take
RECONNECT_FIRST = 100  # milliseconds before the channel connects again; the channel doubles it
RECONNECT_CAP = 5_000  # milliseconds

_OPTIONS: tuple[tuple[str, Any], ...] = (
    ("grpc.max_receive_message_length", RECEIVE_LIMIT),
    ("grpc.keepalive_time_ms", KEEPALIVE_TIME),
    ("grpc.keepalive_timeout_ms", KEEPALIVE_TIMEOUT),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", RECONNECT_FIRST),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_CAP),
)


def is_loopback(address: str) -> bool:
    """Whether an address of a server, HOST:PORT, means this machine."""
    host = address.rpartition(":")[0].strip("[]")
    if host == "localhost" or address.startswith("unix:"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def open_channel(
    address: str, credentials: grpc.ChannelCredentials | None, more: Sequence[tuple[str, Any]] = ()
) -> grpc.aio.Channel:
    """A channel; without credentials in plain text. Made inside the event loop that uses it."""
    options = [*_OPTIONS, *more]
    if is_loopback(address):
        options.append(("grpc.enable_http_proxy", 0))  # a proxy from the environment cannot reach this machine
    if credentials is None:
        return grpc.aio.insecure_channel(address, options)
    return grpc.aio.secure_channel(address, credentials, options)


def metadata_of(key: str) -> tuple[tuple[str, str], ...]:
    """The metadata that carries a credential; an empty one is left out. ValueError where no header can carry it."""
    if not (key.isascii() and key.isprintable()):
        raise ValueError("the key holds characters that no credential has")
    return (("authorization", f"Bearer {key}"),) if key else ()


class Retries:
    """Decides after each failure whether and when to try again: UNAVAILABLE only, until a time has passed."""

    def __init__(self, patience: float) -> None:
        self._until = time.monotonic() + patience
        self._backoff = Backoff()

    def succeed(self) -> None:
        """From now on try again without end, from a short pause on."""
        self._until = math.inf
        self._backoff.reset()

    async def pause(self, failure: RequestError) -> None:
        """Sleep before the next attempt, or raise the failure where there is to be none."""
        if failure.code != Code.UNAVAILABLE:
            raise failure
        pause = self._backoff.pause(failure.retry_after)
        if time.monotonic() + pause >= self._until:
            raise failure
        await asyncio.sleep(pause)


class Connection:
    """An open channel with a credential. `timeout` is a call's overall deadline and `patience` how long it keeps trying
    while the server is unavailable, both in seconds."""

    def __init__(
        self, channel: grpc.aio.Channel, metadata: Sequence[tuple[str, str]], timeout: float, patience: float
    ) -> None:
        self.channel = channel
        self.metadata = tuple(metadata)
        self.timeout = timeout
        self.patience = patience

    async def call(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        *,
        timeout: float | None = None,
        patience: float | None = None,
    ) -> _Response:
        """One call, tried again while the server is unavailable; RequestError with the number of `attempts`."""
        deadline = time.monotonic() + (self.timeout if timeout is None else timeout)
        retries = Retries(self.patience if patience is None else patience)
        attempts = 0
        while True:
            attempts += 1
            try:
                return await method(request, timeout=deadline - time.monotonic(), metadata=self.metadata)
            except grpc.aio.AioRpcError as error:
                failure = errors.from_rpc(error)
                failure.attempts = attempts
                failure.__cause__ = error
            await retries.pause(failure)
