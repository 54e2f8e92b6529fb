"""An event loop on a thread of its own, for programs that have none."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from concurrent.futures import Future
from contextlib import suppress
from typing import Generic, ParamSpec, TypeVar

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
        """Call a coroutine function and wait for it. Who is interrupted, at whatever moment, cancels it. RuntimeError
        where the thread does not run."""
        work = _Work(lambda: function(*args, **kwargs))
        try:
            self._submit(work.begin)
            return work.result.result()
        except BaseException:
            self._submit_unless_stopped(work.cancel)
            raise

    def iterate(self, items: AsyncGenerator[_T]) -> Generator[_T]:
        """Iterate over an async generator of anything but None, which is closed where the iteration is given up."""
        try:
            while (item := self.run(anext, items, None)) is not None:
                yield item
        finally:
            # Not waited for: who collects garbage may be the loop's own thread.
            self._submit_unless_stopped(_Work(items.aclose).begin)

    def _submit(self, callback: Callable[[], None]) -> None:
        with self._submitting:
            self.require_started().call_soon_threadsafe(callback)

    def _submit_unless_stopped(self, callback: Callable[[], None]) -> None:
        with suppress(RuntimeError):
            self._submit(callback)


class _Work(Generic[_T]):
    """A call of a coroutine function, whose `result` threads may wait for. Begun and cancelled inside of the loop."""

    def __init__(self, function: Callable[[], Awaitable[_T]]) -> None:
        self.result: Future[_T] = Future()
        self._function = function
        self._task: asyncio.Task[_T] | None = None

    def begin(self) -> None:
        """Begin the call."""
        self._task = asyncio.create_task(self._call())
        self._task.add_done_callback(self._end)

    async def _call(self) -> _T:
        return await self._function()

    def cancel(self) -> None:
        """Cancel the call, where it was begun and has not ended."""
        if self._task is not None:
            self._task.cancel()

    def _end(self, task: asyncio.Task[_T]) -> None:
        if task.cancelled():
            self.result.cancel()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())
