"""Times calls that run at the same time."""

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median


@dataclass(frozen=True, kw_only=True, slots=True)
class Timing:
    """What calls took, in seconds: each of them, and all together."""

    latencies: Sequence[float]
    seconds: float

    @property
    def rate(self) -> float:
        """Calls a second."""
        return len(self.latencies) / self.seconds

    @property
    def median(self) -> float:
        return median(self.latencies)

    @property
    def p99(self) -> float:
        return percentile(self.latencies, 99)

    def __add__(self, other: "Timing") -> "Timing":
        """Both, where one followed the other."""
        return Timing(latencies=[*self.latencies, *other.latencies], seconds=self.seconds + other.seconds)


def percentile(figures: Sequence[float], percent: float) -> float:
    """The smallest figure that `percent` of all do not exceed (the nearest rank, so it is one that was measured)."""
    return sorted(figures)[max(0, math.ceil(len(figures) * percent / 100) - 1)]


async def repeat(
    call: Callable[[int], Awaitable[object]], *, concurrent: int, seconds: float, limit: int | None = None
) -> Timing:
    """Make calls, `concurrent` at a time, until `seconds` have passed or `limit` calls (None: no such limit, else at
    least one) are made. A call is given its number, from 0. The first failure ends all and is raised."""
    numbers = count() if limit is None else iter(range(limit))
    latencies: list[float] = []
    begin = time.perf_counter()

    async def caller() -> None:
        for number in numbers:
            sent = time.perf_counter()
            await call(number)
            done = time.perf_counter()
            latencies.append(done - sent)
            if done - begin >= seconds:
                break

    try:
        async with asyncio.TaskGroup() as callers:
            for _ in range(concurrent):
                callers.create_task(caller())
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return Timing(latencies=latencies, seconds=time.perf_counter() - begin)
