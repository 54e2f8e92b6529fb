"""Cancelling a call at each of its awaits in turn."""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from enum import Enum
from typing import Any


class Moment(Enum):
    """When a call is cancelled at an await."""

    #: As it begins to wait: what it waits for is cancelled with it.
    BEFORE = "before"
    #: As what it waits for has come: it is too late to stop that.
    AFTER = "after"


class CancelledAt(Coroutine[Any, Any, Any]):
    """A coroutine whose task is cancelled at the await of that number, from 1."""

    def __init__(self, coroutine: Coroutine[Any, Any, Any], number: int, moment: Moment) -> None:
        self._coroutine = coroutine
        self._left = number
        self._moment = moment
        #: Whether the coroutine came as far as to be cancelled.
        self.reached = False

    def send(self, value: Any) -> Any:
        """Go on to the next await."""
        return self._look(self._coroutine.send(value))

    def throw(self, *error: Any) -> Any:
        """Go on with an error to the next await."""
        return self._look(self._coroutine.throw(*error))

    def close(self) -> None:
        """End."""
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        """Tasks send and throw."""
        raise NotImplementedError

    def _look(self, awaited: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self.reached = True
            task = asyncio.current_task()
            assert task is not None
            if self._moment is Moment.BEFORE or awaited is None:
                task.cancel()
            else:
                awaited.add_done_callback(lambda _: task.cancel())  # runs before the one that wakes the task
        return awaited


async def cancelled_at(call: Callable[[], Coroutine[Any, Any, Any]], number: int, moment: Moment) -> bool:
    """Make a call and cancel it at an await. Returns whether it came so far."""
    coroutine = CancelledAt(call(), number, moment)
    task = asyncio.get_running_loop().create_task(coroutine)
    await asyncio.wait([task], timeout=10)
    assert task.done(), "hangs once it is cancelled"
    if coroutine.reached:
        assert task.cancelled(), "swallowed its cancellation"
    else:
        task.result()
    return coroutine.reached
