"""Clients that leave: nothing of theirs stays behind, and what became of their calls can be learned."""

import asyncio
import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import grpc
import pytest
from tests.clients import ANSWERED, MIB, PENDING, Client, Watcher, connected
from tests.conditions import eventually
from tests.processes import ServerProcess
from tests.questions import text, text_question
from tests.servers import Served

from askd.store.database import Database, Transaction
from askd.v1 import ask_service_pb2 as pb

T = TypeVar("T")

AT_ONCE = 100


def left_over(server: Served) -> list[object]:
    """What the server still holds of calls that are over."""
    inside = server.server
    return [*inside.interceptor.under_way.elements(), *inside.hub._rings, *inside.hub._waits, *inside.streams._open]


async def open_and_leave(client: Client, count: int) -> None:
    """Open so many watches of several kinds, look at each and leave it."""

    async def once(number: int) -> None:
        fields = ({}, {"after_revision": 0}, {"session_id": "s"}, {"workspace_id": f"w{number % 7}"})[number % 4]
        async with client.watch(**fields) as watcher:
            if number % 3:
                await watcher.until_synced()

    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*map(once, range(first, min(first + AT_ONCE, count))))


async def test_opened_and_cancelled_watches_leave_no_task_behind(server: Served) -> None:
    await server.admin.ask()
    await open_and_leave(server.admin, AT_ONCE)
    await eventually(lambda: not left_over(server))
    before = len(asyncio.all_tasks())
    await open_and_leave(server.admin, 500)
    await eventually(lambda: not left_over(server) and len(asyncio.all_tasks()) <= before)


async def check_memory(process: ServerProcess, admin: Client, count: int) -> None:
    await admin.ask()
    await open_and_leave(admin, count // 2)  # what is allocated once is allocated by now
    before = process.resident()
    await open_and_leave(admin, count)
    assert process.resident() - before < count * 300 + 4 * MIB


async def test_opened_and_cancelled_watches_leave_memory_flat(process: ServerProcess, process_admin: Client) -> None:
    await check_memory(process, process_admin, 1_500)


@pytest.mark.soak
async def test_ten_thousand_opened_and_cancelled_watches_leave_memory_flat(
    process: ServerProcess, process_admin: Client
) -> None:
    await check_memory(process, process_admin, 10_000)
    before = process.resident()
    await open_and_leave(process_admin, 10_000)
    assert process.resident() - before < 2 * MIB


# --- calls that are left in the middle ---


class Gate:
    """Stands before the writer's database: a transaction that has come waits until it may pass."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.come = asyncio.Event()
        self.passing = asyncio.Event()

    async def write(self, transaction: Transaction[T]) -> T:
        self.come.set()
        await self.passing.wait()
        return await self._database.write(transaction)


@contextmanager
def gate(server: Served, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """Hold the writer's next transactions."""
    held = Gate(server.database)
    with monkeypatch.context() as patch:
        patch.setattr(server.server.writer, "_database", held)
        try:
            yield held
        finally:
            held.passing.set()


@pytest.mark.parametrize("stage", ["queued", "writing"])
async def test_an_asker_that_leaves_learns_with_its_request_id_what_became_of_it(
    server: Served, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    request = pb.AskRequest(workspace_id="w", session_id="s", questions=[text_question()], request_id="left")
    with gate(server, monkeypatch) as held:
        other = asyncio.create_task(server.admin.ask()) if stage == "queued" else None
        if other:
            await eventually(held.come.is_set)
        call = server.admin.asks.Ask(request, metadata=server.admin.metadata)
        await eventually(held.come.is_set if stage == "writing" else lambda: server.server.writer.waiting == 1)
        call.cancel()
        await eventually(lambda: server.server.interceptor.under_way.total() == (1 if other else 0))
        held.passing.set()
        if other:
            await other
    if stage == "writing":
        await eventually(lambda: _is_stored(server.admin))  # what was under way is done to its end
    ask = await server.admin.ask(request_id="left")
    assert ask.status == PENDING
    assert await server.admin.ask(request_id="left") == ask
    assert [kept.id for kept in await server.admin.list_all()].count(ask.id) == 1
    await eventually(lambda: not left_over(server))


async def _is_stored(client: Client) -> bool:
    return len(await client.list_all()) == 1


async def test_an_answerer_that_leaves_learns_with_its_answer_id_what_became_of_it(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = await server.admin.ask()
    request = pb.AnswerAskRequest(workspace_id="w", ask_id=ask.id, answer_id="left", answers=[text("Ada")])
    with gate(server, monkeypatch) as held:
        call = server.admin.asks.AnswerAsk(request, metadata=server.admin.metadata)
        await eventually(held.come.is_set)
        call.cancel()
        await eventually(lambda: not server.server.interceptor.under_way.total())
        held.passing.set()
    receipt = await server.admin.answer(ask.id, text("Ada"), answer_id="left")
    assert receipt.status == ANSWERED
    assert receipt.resolved_revision == 2
    assert await server.admin.answer(ask.id, text("Ada"), answer_id="left") == receipt


async def test_a_deadline_that_passes_in_the_middle_leaves_a_certain_outcome(
    server: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = pb.AskRequest(workspace_id="w", session_id="s", questions=[text_question()], request_id="late")
    with gate(server, monkeypatch) as held:
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await server.admin.asks.Ask(request, metadata=server.admin.metadata, timeout=0.3)
        assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        held.passing.set()
    ask = await server.admin.ask(request_id="late")
    assert ask.created_revision == 1


async def test_a_connection_that_breaks_ends_everything_on_it(server: Served) -> None:
    ask = await server.admin.ask()
    request = pb.WaitAskRequest(workspace_id="w", ask_id=ask.id)
    async with connected(server.address, server.credential) as leaving:
        watchers = [leaving.watch() for _ in range(10)]
        for watcher in watchers:
            await watcher.until_synced()
        waits = [leaving.asks.WaitAsk(request, metadata=leaving.metadata) for _ in range(10)]
        await eventually(lambda: server.server.interceptor.under_way.total() == 20)
        await leaving.channel.close()
        await eventually(lambda: not left_over(server))
        for wait in waits:
            assert wait.done()
    gc.collect()


# --- watchers that do not read ---


@asynccontextmanager
async def not_reading(process: ServerProcess, count: int) -> AsyncIterator[list[Watcher]]:
    """Watchers on a connection of their own that read one response and then nothing, until they are asked to."""
    async with connected(process.address, process.credential) as client:
        watchers = [client.watch() for _ in range(count)]
        for watcher in watchers:
            await watcher.until_synced()
        yield watchers
        for watcher in watchers:
            watcher.call.cancel()


async def flood(admin: Client, reader: Watcher, count: int, size: int) -> None:
    """Ask again and again, and see each ask arrive at a watcher that reads before the next is asked."""
    question = text_question("x" * size)
    for _ in range(count):
        ask = await admin.ask(*[question] * 4)
        [event] = await reader.events(1)
        assert event.ask.id == ask.id


async def check_slow_watchers(process: ServerProcess, admin: Client, slow: int, count: int) -> None:
    """The ring keeps 64 MiB for all, and gRPC some MiB of what was sent to each; nothing else may grow in the flood."""
    size = 250_000
    async with admin.watch() as reader:
        await reader.until_synced()
        await flood(admin, reader, 5, size)
        before = process.resident()
        async with not_reading(process, slow) as watchers:
            await flood(admin, reader, count, size)
            assert process.resident() - before < (64 + 8 * slow + 64) * MIB
            seen = [event.revision for event in await watchers[0].events(count)]
            assert seen == list(range(6, 6 + count)), "it missed nothing, slow as it was"


async def test_a_watcher_that_does_not_read_costs_nobody_else_anything(
    process: ServerProcess, process_admin: Client
) -> None:
    await check_slow_watchers(process, process_admin, slow=3, count=40)


@pytest.mark.soak
async def test_many_watchers_that_do_not_read_cost_nobody_else_anything(
    process: ServerProcess, process_admin: Client
) -> None:
    await check_slow_watchers(process, process_admin, slow=20, count=400)


async def test_a_watcher_that_does_not_read_is_gone_once_it_leaves(server: Served) -> None:
    async with connected(server.address, server.credential) as client:
        watcher = client.watch()
        await watcher.until_synced()
        for _ in range(12):
            await server.admin.ask(*[text_question("x" * 250_000)] * 4)
        watcher.call.cancel()
        await eventually(lambda: not left_over(server))
