"""An event loop in a thread of its own, so that making requests and reading responses does not delay asks."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

_T = TypeVar("_T")
_Running: TypeAlias = tuple[asyncio.AbstractEventLoop, asyncio.Event]


class LoopThread:
    """Runs coroutines elsewhere for whoever awaits them here. The first of them starts the thread."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._running: _Running | None = None

    async def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """What a coroutine returns or raises. Cancelling the caller cancels it."""
        if self._running is None:
            started: Future[_Running] = Future()
            self._thread = threading.Thread(target=_serve, args=(started,), name="advisors", daemon=True)
            self._thread.start()
            self._running = started.result()
        loop, _ = self._running
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))

    async def close(self) -> None:
        """End what still runs in the thread, and then the thread."""
        if self._running is not None and self._thread is not None:
            (loop, stopped), self._running = self._running, None
            loop.call_soon_threadsafe(stopped.set)
            await asyncio.to_thread(self._thread.join)


def _serve(started: "Future[_Running]") -> None:
    asyncio.run(_run(started))


async def _run(started: "Future[_Running]") -> None:
    stopped = asyncio.Event()
    started.set_result((asyncio.get_running_loop(), stopped))
    await stopped.wait()
