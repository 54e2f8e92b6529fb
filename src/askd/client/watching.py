"""A watch that reconnects and resumes by itself (CONTRACT section 5, Watching)."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import grpc

from askd.client import errors
from askd.client.connection import Connection, Retries
from askd.client.errors import RequestError
from askd.domain.errors import Code
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc

if TYPE_CHECKING:  # the stubs alone know it
    from askd.v1.ask_service_pb2_grpc import AskServiceAsyncStub

_EVENT_OF_STATUS = {
    pb.ASK_STATUS_ANSWERED: pb.ASK_EVENT_TYPE_ANSWERED,
    pb.ASK_STATUS_REJECTED: pb.ASK_EVENT_TYPE_REJECTED,
    pb.ASK_STATUS_CANCELLED: pb.ASK_EVENT_TYPE_CANCELLED,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class WatchItem:
    """One thing that a watch tells: an event, that all that was past has been told (`synced`, once in a watch), or
    neither: a heartbeat.

    `revision` is where to resume after having taken the item: give it to another watch as `after`. It is None until a
    snapshot is whole, since a part of one cannot be resumed.
    """

    event: pb.AskEvent | None = None
    revision: int | None = None
    synced: bool = False


class Watch:
    """The state of one watch: what it has told, and where it resumes.

    An event is told once. Where the connection is lost during the first snapshot, the next snapshot tells only what the
    one before did not, and what was told as pending and has been resolved meanwhile is told as the event it missed.
    """

    def __init__(
        self,
        connection: Connection,
        stub: "AskServiceAsyncStub",
        request: rpc.WatchAsksRequest,
        get: Callable[[str], Awaitable[pb.AskState]],
    ) -> None:
        self._connection = connection
        self._stub = stub
        self._request = request
        self._get = get
        self._synced = False
        # Of a snapshot that is not whole: created_revision and id of the asks told, and those not met again since.
        self._told: dict[int, str] = {}
        self._missed: dict[int, str] = {}

    async def items(self) -> AsyncGenerator[WatchItem]:
        """Everything from the first connection on, without end. RequestError where the server refuses the watch, or is
        unavailable for longer than the connection's patience before its first response."""
        retries = Retries(self._connection.patience)
        while True:
            self._missed = dict(self._told)
            call = self._stub.WatchAsks(self._request, metadata=self._connection.metadata)
            try:
                async for response in call:
                    retries.succeed()
                    for event in self._new(response):
                        yield WatchItem(event=event, revision=self._after)
                    for item in await self._progress(response):
                        yield item
                failure = RequestError(Code.UNAVAILABLE, "the server ended the watch")
            except grpc.aio.AioRpcError as error:
                failure = errors.from_rpc(error)
                failure.__cause__ = error
            except RequestError as error:
                failure = error
            finally:
                call.cancel()
            await retries.pause(failure)

    @property
    def _after(self) -> int | None:
        return self._request.after_revision if self._request.HasField("after_revision") else None

    def _new(self, response: rpc.WatchAsksResponse) -> Iterator[pb.AskEvent]:
        for event in response.events:
            if event.type == pb.ASK_EVENT_TYPE_PENDING:
                if self._missed.pop(event.revision, None) is None:
                    self._told[event.revision] = event.ask.id
                    yield event
            elif event.revision > self._request.after_revision:
                self._request.after_revision = event.revision
                yield event

    async def _progress(self, response: rpc.WatchAsksResponse) -> list[WatchItem]:
        """What a response tells beside its events; advances the place to resume."""
        before = self._after
        if not response.HasField("revision"):
            return [] if response.events else [WatchItem(revision=before)]
        items = [WatchItem(event=event) for event in await self._resolved_meanwhile()]
        self._told.clear()
        self._request.after_revision = response.revision
        if response.synced and not self._synced:
            self._synced = True
            return [*items, WatchItem(revision=response.revision, synced=True)]
        news = not response.events or before != response.revision
        return [*items, WatchItem(revision=response.revision)] if news else items

    async def _resolved_meanwhile(self) -> list[pb.AskEvent]:
        asks = [await self._get(ask_id) for ask_id in self._missed.values()]
        self._missed.clear()
        wanted = self._request.statuses
        return [
            pb.AskEvent(type=_EVENT_OF_STATUS[ask.status], revision=ask.resolved_revision, ask=ask)
            for ask in sorted(asks, key=lambda ask: ask.resolved_revision)
            if not wanted or ask.status in wanted
        ]
