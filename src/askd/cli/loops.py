"""The event loop that services run on."""

import asyncio
from collections.abc import Coroutine
from typing import Any


def run(service: Coroutine[Any, Any, None]) -> None:
    """Run a service to its end, on uvloop where that exists for the platform."""
    try:
        from uvloop import new_event_loop
    except ImportError:
        asyncio.run(service)
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(service)
