"""Waiting for what is to become true."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable

_PAUSE = 0.01


async def eventually(holds: Callable[[], bool | Awaitable[bool]], within: float = 10.0, pause: float = _PAUSE) -> None:
    """Return once a condition holds; fail where it does not within so many seconds."""
    end = time.monotonic() + within
    while True:
        held = holds()
        if inspect.isawaitable(held):
            held = await held
        if held:
            return
        assert time.monotonic() < end, f"not within {within} s: {inspect.getsource(holds).strip()}"
        await asyncio.sleep(pause)
