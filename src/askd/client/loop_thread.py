"""An event loop on a thread of its own, for programs that have none."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class LoopThread:
    """Runs coroutines for threads that block until they are done. Any number of threads may."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        # What is submitted is submitted before the loop is told to stop, or not at all. Reentrant, since a collected
        # iterator may submit its end amid anything.
        self._submitting = threading.RLock()

    def start(self) -> None:
        """Start the thread."""
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._live(ready)), name="askd-client", daemon=True)
        self._thread.start()
        ready.wait()

    async def _live(self, ready: threading.Event) -> None:
        self._loop, self._stopped = asyncio.get_running_loop(), asyncio.Event()
        ready.set()
        await self._stopped.wait()

    def stop(self) -> None:
        """Cancel what still runs, and end the thread."""
        with self._submitting:
            loop, self._loop = self._loop, None
            if loop is not None:
                loop.call_soon_threadsafe(self._stopped.set)
        if self._thread is not None:
            self._thread.join()

    def require_started(self) -> asyncio.AbstractEventLoop:
        """The loop. RuntimeError where the thread does not run."""
        if self._loop is None:
            raise RuntimeError("the client is not open: use it in a `with` block")
        return self._loop

    def run(self, function: Callable[_P, Awaitable[_T]], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a coroutine function and wait for it. Who is interrupted cancels it. RuntimeError where the thread does
        not run."""

        async def call() -> _T:
            return await function(*args, **kwargs)

        future = self._submit(call)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def _submit(self, call: Callable[[], Coroutine[Any, Any, _T]]) -> Future[_T]:
        with self._submitting:
            loop = self.require_started()
            return asyncio.run_coroutine_threadsafe(call(), loop)

    def iterate(self, items: AsyncGenerator[_T]) -> Generator[_T]:
        """Iterate over an async generator of anything but None, which is closed where the iteration is given up."""
        try:
            while (item := self.run(_next, items)) is not None:
                yield item
        finally:
            # Not waited for: who collects garbage may be the loop's own thread. A stopped loop has closed it.
            with suppress(RuntimeError):
                self._submit(lambda: _close(items))


async def _next(items: AsyncGenerator[_T]) -> _T | None:
    return await anext(items, None)


async def _close(items: AsyncGenerator[_T]) -> None:
    await items.aclose()
