"""The thread in which providers are called."""

import asyncio
import threading

import pytest
from tests.conditions import eventually

from askd.advisors.loop_thread import LoopThread


async def current() -> threading.Thread:
    return threading.current_thread()


async def test_coroutines_run_in_one_other_thread_until_it_is_closed() -> None:
    thread = LoopThread()
    first = await thread.run(current())
    assert first is await thread.run(current())
    assert first is not threading.current_thread()
    await thread.close()
    assert not first.is_alive()
    assert (await thread.run(current())).is_alive(), "and in another where it is needed again"
    await thread.close()


async def test_closing_what_was_never_used_does_nothing() -> None:
    await LoopThread().close()


async def test_what_a_coroutine_raises_is_raised_here() -> None:
    async def fail() -> None:
        raise LookupError("x")

    thread = LoopThread()
    with pytest.raises(LookupError, match="x"):
        await thread.run(fail())
    await thread.close()


class Sleeper:
    """Sleeps for ever, and knows whether it began and was cancelled."""

    def __init__(self) -> None:
        self.begun = False
        self.cancelled = False

    async def sleep(self) -> None:
        self.begun = True
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled = True


async def test_cancelling_the_caller_cancels_the_coroutine() -> None:
    thread, sleeper = LoopThread(), Sleeper()
    caller = asyncio.create_task(thread.run(sleeper.sleep()))
    await eventually(lambda: sleeper.begun)
    caller.cancel()
    await eventually(lambda: sleeper.cancelled)
    await thread.close()


async def test_closing_cancels_what_runs() -> None:
    thread, sleeper = LoopThread(), Sleeper()
    caller = asyncio.create_task(thread.run(sleeper.sleep()))
    await eventually(lambda: sleeper.begun)
    await thread.close()
    assert sleeper.cancelled
    with pytest.raises(asyncio.CancelledError):
        await caller
