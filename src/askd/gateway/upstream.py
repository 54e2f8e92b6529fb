"""The askd server that the gateway is a client of."""

import asyncio
from typing import TYPE_CHECKING, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from askd.domain.errors import Code
from askd.gateway import refusals
from askd.gateway.exchange import Exchange
from askd.gateway.metrics import Metrics
from askd.gateway.refusals import RefusalError
from askd.gateway.settings import GatewaySettings
from askd.v1.ask_service_pb2 import WatchAsksRequest, WatchAsksResponse
from askd.v1.ask_service_pb2_grpc import AskServiceStub

if TYPE_CHECKING:
    from askd.v1.ask_service_pb2_grpc import AskServiceAsyncStub

_Request = TypeVar("_Request")
_Response = TypeVar("_Response")

# A page or a watch response is at most 3 MiB, a question at most 1 MiB: the usual 4 MiB suffice, and are made sure of.
_MESSAGE_BYTES = 4 * 1024 * 1024
_OPTIONS = [
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MESSAGE_BYTES),
    # Whoever names the server means it, and no proxy that the environment names for something else.
    ("grpc.enable_http_proxy", 0),
    # A server that is back is found within a second; gRPC's own steps go up to two minutes.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", 1000),
    # A server that vanished without a word is noticed, also while a watch is silent.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
]
HEALTH_TIMEOUT = 5.0  # seconds; what asks for health does not wait longer


def open_channel(address: str, settings: GatewaySettings) -> grpc.aio.Channel:
    """A channel to HOST:PORT, in plain text where no certificates are set."""
    if settings.root_certificates is None:
        return grpc.aio.insecure_channel(address, options=_OPTIONS)
    trust = grpc.ssl_channel_credentials(settings.root_certificates)
    return grpc.aio.secure_channel(address, trust, options=_OPTIONS)


class Upstream:
    """Calls to the server, each with its caller's credential. It lives in the event loop of its channel."""

    def __init__(self, channel: grpc.aio.Channel, settings: GatewaySettings, metrics: Metrics) -> None:
        self.asks: AskServiceAsyncStub = AskServiceStub(channel)
        self._health = health_pb2_grpc.HealthStub(channel)
        self._channel = channel
        self.settings = settings
        self.metrics = metrics
        self._lasting: set[grpc.aio.Call] = set()
        self._draining = False

    async def call(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        exchange: Exchange,
        timeout: float | None = None,
    ) -> _Response:
        """The response of a unary call; a failure is a RefusalError. The call is given up when the client leaves."""
        return await self._finish(self._begin(method, request, exchange, timeout), exchange)

    async def lasting_call(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        exchange: Exchange,
        timeout: float,
    ) -> _Response:
        """The same for a call that may take long: draining ends it."""
        rpc = self._begin(method, request, exchange, timeout)
        self.enter(rpc, exchange)
        try:
            return await self._finish(rpc, exchange)
        finally:
            self.leave(rpc)

    def _begin(
        self,
        method: "grpc.aio.UnaryUnaryMultiCallable[_Request, _Response]",
        request: _Request,
        exchange: Exchange,
        timeout: float | None,
    ) -> "grpc.aio.UnaryUnaryCall[_Request, _Response]":
        return method(request, metadata=exchange.metadata, timeout=timeout or self.settings.call_timeout)

    async def _finish(self, rpc: "grpc.aio.UnaryUnaryCall[_Request, _Response]", exchange: Exchange) -> _Response:
        exchange.watch_client()
        try:
            return await rpc
        except grpc.aio.AioRpcError as error:
            raise refusals.of_rpc(error) from None
        except asyncio.CancelledError:
            self.explain()
            raise

    def watch(
        self, request: WatchAsksRequest, exchange: Exchange
    ) -> "grpc.aio.UnaryStreamCall[WatchAsksRequest, WatchAsksResponse]":
        """A watch, which its caller reads and cancels."""
        return self.asks.WatchAsks(request, metadata=exchange.metadata)

    def enter(self, call: grpc.aio.Call, exchange: Exchange) -> None:
        """Have draining end this call."""
        if self._draining:
            call.cancel()
            raise _draining()
        exchange.lasting = True
        self._lasting.add(call)

    def leave(self, call: grpc.aio.Call) -> None:
        """The call has ended."""
        self._lasting.discard(call)

    def explain(self) -> None:
        """After a CancelledError: raise what it means where draining ended the call, and not somebody this task."""
        task = asyncio.current_task()
        if self._draining and task is not None and not task.cancelling():
            raise _draining() from None

    def drain(self) -> None:
        """End what lasts, and refuse to begin it again: the gateway is about to stop."""
        self._draining = True
        for call in list(self._lasting):
            call.cancel()

    async def health(self, service: str = "") -> str:
        """What the server's health service says of a service, like SERVING; "" where it cannot be asked."""
        request = health_pb2.HealthCheckRequest(service=service)
        try:
            response = await self._health.Check(request, timeout=HEALTH_TIMEOUT)
        except grpc.aio.AioRpcError:
            return ""
        return str(health_pb2.HealthCheckResponse.ServingStatus.Name(response.status))

    async def close(self) -> None:
        """Close the channel."""
        await self._channel.close()


def _draining() -> RefusalError:
    return RefusalError(Code.UNAVAILABLE, "the gateway is stopping", retry_after=1.0)
