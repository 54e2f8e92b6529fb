"""SQLite's threads: reads that wait share a transaction, and share nothing else."""

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError
from tests.conditions import eventually

from askd.store.threads import Threads, driver_of

TOGETHER = 4


@pytest.fixture
async def reading(tmp_path: Path) -> AsyncIterator[Threads]:
    """One thread that reads."""
    engine = create_engine(f"sqlite:///{tmp_path / 'x.db'}", connect_args={"isolation_level": None})
    threads = Threads(engine, "test", "BEGIN", together=TOGETHER)
    yield threads
    await threads.close()


class Gate:
    """Work that holds its thread up."""

    def __init__(self) -> None:
        self.begun, self.left = threading.Event(), threading.Event()

    def __call__(self, _: Connection) -> None:
        self.begun.set()
        assert self.left.wait(10)


async def held_up(threads: Threads) -> "tuple[Gate, asyncio.Task[None]]":
    gate = Gate()
    task = asyncio.create_task(threads.run(gate))
    await asyncio.to_thread(gate.begun.wait, 10)
    return gate, task


async def test_reads_that_wait_share_transactions(reading: Threads) -> None:
    statements: list[str] = []
    await reading.run(lambda connection: driver_of(connection).set_trace_callback(statements.append))
    gate, holding = await held_up(reading)
    tasks = [asyncio.create_task(reading.run(lambda _: None)) for _ in range(2 * TOGETHER)]
    await eventually(lambda: reading._jobs.qsize() == len(tasks))
    gate.left.set()
    await asyncio.gather(holding, *tasks)
    assert statements.count("BEGIN") == 3  # the first was its own


async def test_a_read_that_fails_fails_alone(reading: Threads) -> None:
    gate, holding = await held_up(reading)

    def fail(connection: Connection) -> None:
        connection.execute(text("SELECT nothing FROM nowhere"))

    def fail_in_the_driver(connection: Connection) -> None:
        driver_of(connection).execute("SELECT nothing FROM nowhere")

    works = [lambda _: 1, fail, fail_in_the_driver, lambda connection: connection.scalar(text("SELECT 2"))]
    tasks = [asyncio.create_task(reading.run(work)) for work in works]
    await eventually(lambda: reading._jobs.qsize() == len(tasks))
    gate.left.set()
    first, failed, failed_too, last = await asyncio.gather(*tasks, return_exceptions=True)
    await holding
    assert (first, last) == (1, 2)
    assert isinstance(failed, OperationalError)
    assert isinstance(failed_too, OperationalError)
    assert reading.open_transactions == 0


async def test_what_waits_is_done_before_the_threads_end(reading: Threads) -> None:
    gate, holding = await held_up(reading)
    tasks = [asyncio.create_task(reading.run(lambda _: "done")) for _ in range(2 * TOGETHER + 1)]
    await eventually(lambda: reading._jobs.qsize() == len(tasks))
    closing = asyncio.create_task(reading.close())
    gate.left.set()
    assert await asyncio.gather(*tasks) == ["done"] * len(tasks)
    await asyncio.gather(holding, closing)
    assert not any(thread.is_alive() for thread in reading._threads)


async def test_a_connection_that_is_lost_is_made_anew(reading: Threads) -> None:
    def lose(connection: Connection) -> None:
        driver_of(connection).close()

    with pytest.raises(OperationalError):
        await reading.run(lose)
    assert await reading.run(lambda connection: connection.scalar(text("SELECT 1"))) == 1
