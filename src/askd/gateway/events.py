"""Watches as Server-Sent Events: what both event streams have in common."""

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import grpc

from askd.domain.errors import Code
from askd.gateway import refusals
from askd.gateway.exchange import Exchange, gathered
from askd.gateway.refusals import RefusalError, invalid
from askd.v1.ask_service_pb2 import WatchAsksRequest, WatchAsksResponse

if TYPE_CHECKING:
    from askd.gateway.upstream import Upstream

_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)
_LARGEST_REVISION = 2**63 - 1
#: Milliseconds after which clients come back when a stream ends: spread, so that they do not all come at once.
_RETRY = (1000, 3000)

#: The Server-Sent Events of one response of the watch, none for a heartbeat.
Render = Callable[[WatchAsksResponse], Iterable[bytes]]
#: The last event of a stream that the server or the gateway ends.
RenderEnd = Callable[[RefusalError], bytes]


def event(data: bytes, name: str = "", revision: int | None = None) -> bytes:
    """A Server-Sent Event: its data is one line of JSON, its id the revision to resume after."""
    lines = [b"event: %s" % name.encode()] if name else []
    if revision is not None:
        lines.append(b"id: %d" % revision)
    return b"\n".join([*lines, b"data: %s" % data, b"", b""])


def last_event_id(exchange: Exchange) -> int | None:
    """The revision to resume after: the Last-Event-ID that a client sends when it comes back."""
    text = exchange.header(b"last-event-id")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= _LARGEST_REVISION):
        raise invalid("Last-Event-ID", "must be the id of an event of this stream")
    return int(text)


class Watch:
    """An open watch upstream. Closing it, leaving its block, tells the server that nobody reads it any more."""

    def __init__(self, request: WatchAsksRequest, exchange: Exchange) -> None:
        self._upstream: Upstream = exchange.upstream
        self._call = self._upstream.watch(request, exchange)
        self._upstream.enter(self._call, exchange)
        exchange.watch_client()

    async def read(self) -> WatchAsksResponse:
        """The next response. The end of the watch is a RefusalError, whoever ended it."""
        try:
            response = await self._call.read()
        except grpc.aio.AioRpcError as error:
            raise refusals.of_rpc(error) from None
        except asyncio.CancelledError:
            self._upstream.explain()
            raise
        if not isinstance(response, WatchAsksResponse):
            raise RefusalError(Code.UNAVAILABLE, "the askd server ended the watch", retry_after=1.0)
        return response

    def close(self) -> None:
        """Give the watch up."""
        self._upstream.leave(self._call)
        self._call.cancel()


@contextmanager
def opened(request: WatchAsksRequest, exchange: Exchange) -> Iterator[Watch]:
    """A watch that is closed at the end of the block."""
    watch = Watch(request, exchange)
    try:
        yield watch
    finally:
        watch.close()


async def stream(
    request: WatchAsksRequest, exchange: Exchange, render: Render, render_end: RenderEnd, first: bytes = b""
) -> None:
    """Respond with a watch as an event stream, `first` before everything else.

    Until the server has accepted the watch a refusal gets its status; after that the stream ends with a last event.
    """
    with opened(request, exchange) as watch:
        response = await watch.read()
        await exchange.start(200, _HEADERS)
        await exchange.send(b"retry: %d\n\n" % random.randint(*_RETRY) + first)  # noqa: S311
        with exchange.upstream.metrics.streams.track_inprogress():
            try:
                while True:
                    await _send(response, exchange, render)
                    response = await watch.read()
            except RefusalError as refusal:
                await exchange.finish(render_end(refusal))


async def _send(response: WatchAsksResponse, exchange: Exchange, render: Render) -> None:
    sent = False
    for piece in gathered(render(response)):
        await exchange.send(piece)
        sent = True
    if not sent:
        await exchange.send(_heartbeat(response))


def _heartbeat(response: WatchAsksResponse) -> bytes:
    """A comment, which also moves the id forward past events that were not for this client."""
    identifier = b"id: %d\n" % response.revision if response.HasField("revision") else b""
    return b": heartbeat\n%s\n" % identifier
