"""How calls are timed."""

import asyncio
import math

import pytest

from askd.cli.timing import Timing, percentile, repeat


def test_a_percentile_is_a_figure_that_was_measured() -> None:
    figures = range(1, 201)
    assert (percentile(figures, 99), percentile(figures, 50), percentile([7.0], 99)) == (198, 100, 7.0)


def test_timings_of_one_after_the_other_add_up() -> None:
    both = Timing(latencies=[1.0], seconds=1.0) + Timing(latencies=[2.0, 3.0], seconds=3.0)
    assert (both.latencies, both.rate, both.median) == ([1.0, 2.0, 3.0], 0.75, 2.0)


async def test_each_call_has_its_number_and_the_limit_holds() -> None:
    called: list[int] = []

    async def call(number: int) -> None:
        called.append(number)
        await asyncio.sleep(0)

    timing = await repeat(call, concurrent=3, seconds=math.inf, limit=10)
    assert sorted(called) == list(range(10))
    assert len(timing.latencies) == 10


async def test_so_many_calls_are_under_way_at_once() -> None:
    together = asyncio.Barrier(3)
    await repeat(lambda _: together.wait(), concurrent=3, seconds=math.inf, limit=9)


async def test_after_its_time_each_caller_ends_with_its_call() -> None:
    async def call(_: int) -> None:
        await asyncio.sleep(0)

    assert len((await repeat(call, concurrent=3, seconds=0.0)).latencies) == 3


async def test_the_first_failure_ends_all_and_is_raised_itself() -> None:
    async def call(number: int) -> None:
        if number:
            await asyncio.Event().wait()
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        await repeat(call, concurrent=3, seconds=math.inf)
