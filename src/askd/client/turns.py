"""A turn as a block of a program: what it asks it waits for, and its end is the block's (CONTRACT section 4)."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

from askd.client.content import QuestionLike, Span, ToolLike, new_id, outcome_word
from askd.client.errors import RequestError, UnjoinedError
from askd.client.outcomes import Answered, answered
from askd.domain.errors import Code
from askd.v1 import ask_pb2 as pb
from askd.v1.session_service_pb2 import EndTurnResponse

if TYPE_CHECKING:
    from askd.client.async_client import AsyncClient

_T = TypeVar("_T")
_Send: TypeAlias = Callable[[], Awaitable[pb.AskState]]

FINISH_TIMEOUT = 5.0  # seconds in which a cancelled program still takes its asks back and ends its turn

# After these nothing is left to take back.
_OVER = (Code.ASK_ALREADY_RESOLVED, Code.TURN_ENDED, Code.SESSION_ENDED)

log = logging.getLogger(__name__)


class _Asking:
    """One call of ask() that is not at its end."""

    def __init__(self) -> None:
        self.ask_id = ""
        self.begun = False
        self.ended = asyncio.Event()


class AsyncTurn:
    """A turn of a session, made by AsyncClient.turn() and used with `async with`.

    The turn ends with its block:

    - completed, where every ask was awaited to its end;
    - failed, where one was not: UnjoinedError is raised. An ask counts as joined only when its ask() has ended, with an
      answer or an error; that somebody answered is not enough;
    - interrupted, where the block raises, which also cancels what it left pending. That the turn could not be ended,
      because the server is away, is then logged, since the block's own error is what is raised.

    A turn that others ended before keeps their outcome. `outcome` is the one that holds, as a word, and None until it
    is known.
    """

    def __init__(self, client: "AsyncClient", session: str, turn: str) -> None:
        self.session = session
        self.id = turn
        self.outcome: str | None = None
        self._client = client
        self._is_open = False
        self._left: set[_Asking] = set()

    async def __aenter__(self) -> Self:
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._is_open = False
        await _finish(self._complete() if error is None else self._interrupt())

    def ask(
        self,
        questions: QuestionLike | Sequence[QuestionLike],
        *,
        request_id: str = "",
        tool: ToolLike | None = None,
        expires_in: Span | None = None,
    ) -> Coroutine[Any, Any, Answered]:
        """Ask, as AsyncClient.ask() does, and wait for the answer, through restarts of the server; without an end
        unless `expires_in` seconds are given.

        Where the task that waits is cancelled, or runs into asyncio.timeout(), the ask is taken back before that goes
        on, for which it has FINISH_TIMEOUT seconds. Raises AskRejectedError, AskCancelledError, AskExpiredError, and
        what AsyncClient.ask() raises; turn_ended also outside of the block.
        """
        asking = _Asking()
        self._left.add(asking)  # now, since also a call that nobody awaits is left unjoined
        send = partial(
            self._client.ask,
            questions,
            session=self.session,
            turn=self.id,
            request_id=request_id or new_id(),
            tool=tool,
            expires_in=expires_in,
        )
        return self._ask(asking, send)

    async def _ask(self, asking: _Asking, send: _Send) -> Answered:
        asking.begun = True
        try:
            if not self._is_open:
                raise RequestError(Code.TURN_ENDED, "the turn asks only inside of its block")
            ask = await self._await_resolution(asking, send)
        finally:
            self._left.discard(asking)
            asking.ended.set()
        return answered(ask)

    async def _await_resolution(self, asking: _Asking, send: _Send) -> pb.AskState:
        try:
            ask = await send()
            asking.ask_id = ask.id
            return await self._client.wait(ask)
        except asyncio.CancelledError:
            await _finish(self._withdraw(asking, send))
            raise

    async def _withdraw(self, asking: _Asking, send: _Send) -> None:
        try:
            async with asyncio.timeout(FINISH_TIMEOUT):
                # What was sent may be stored though no reply came: sent again, the same request tells the id.
                await self._client.cancel(asking.ask_id or (await send()).id)
        except Exception as failure:
            if not (isinstance(failure, RequestError) and failure.code in _OVER):
                log.warning("an ask of turn %r could not be taken back: %r", self.id, failure)

    async def _complete(self) -> None:
        left = list(self._left)
        # Where nothing is pending the server would take the turn for completed, though an answer was not taken here.
        ended = await self._end("failed" if left and not await self._is_pending() else "completed")
        with suppress(TimeoutError):
            async with asyncio.timeout(FINISH_TIMEOUT):
                await _see_off(left)
        listed = list(ended.unjoined_ask_ids)
        unlisted = [asking for asking in left if asking.ask_id not in listed]
        if count := ended.unjoined_count + len(unlisted):
            raise UnjoinedError([*listed, *(asking.ask_id for asking in unlisted if asking.ask_id)], count)

    async def _interrupt(self) -> None:
        try:
            async with asyncio.timeout(FINISH_TIMEOUT):
                await self._end("interrupted")
                await _see_off(self._left)
        except Exception as failure:
            log.warning("turn %r could not be ended as interrupted: %r", self.id, failure)

    async def _end(self, outcome: str) -> EndTurnResponse:
        ended = await self._client.end_turn(self.session, self.id, outcome)
        self.outcome = outcome_word(ended.outcome)
        return ended

    async def _is_pending(self) -> bool:
        page = await self._client.list_page(session=self.session, turn=self.id, statuses=["pending"], limit=1)
        return bool(page.asks)


async def _see_off(left: Iterable[_Asking]) -> None:
    """Wait for calls whose asks the turn's end has cancelled, so that none outlives the block."""
    for asking in [asking for asking in left if asking.begun]:
        await asking.ended.wait()


async def _finish(work: Coroutine[Any, Any, _T]) -> _T:
    """Do something to its end though the task that waits for it be cancelled, any number of times; from then on it has
    FINISH_TIMEOUT seconds. Raises the cancellation afterwards."""
    task = asyncio.create_task(work)
    cancellation: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            if cancellation is None:
                asyncio.get_running_loop().call_later(FINISH_TIMEOUT, task.cancel)
            cancellation = error
    if cancellation is not None:
        _ = task.cancelled() or task.exception()  # it counts as seen
        raise cancellation
    return task.result()
