"""Many clients that want the same: one winner, and everybody told of it once."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import grpc
import pytest
from tests.chaos.history import PENDING, History, View
from tests.chaos.load import Endpoint, Load, credentials, resolutions, survey, views, working
from tests.clients import Client, connected, refusal_of
from tests.conditions import eventually
from tests.processes import ServerProcess, configured, serving
from tests.questions import text

CLIENTS = 9
ASKS = 12
HEARTBEAT = '[watch]\nheartbeat = "0.5s"\n'


async def resolve(history: History, client: Client, kind: str, ask_id: str, name: str) -> None:
    begun = history.begin()
    try:
        match kind:
            case "answer":
                ask = await client.answer(ask_id, text(name), answer_id=name)
            case "reject":
                ask = await client.reject(ask_id, reason=name)
            case _:
                ask = await client.cancel(ask_id)
    except grpc.aio.AioRpcError as error:
        history.lose("w", ask_id, refusal_of(error).metadata)
    else:
        history.acknowledge((kind, ask_id, name), begun, ask)


async def test_of_answers_rejections_and_cancellations_that_race_one_wins(
    process: ServerProcess, process_admin: Client
) -> None:
    history = History()
    async with AsyncExitStack() as stack:
        keys = await credentials(process_admin, CLIENTS)
        clients = [await stack.enter_async_context(connected(process.address, key)) for key in keys]
        watcher = await stack.enter_async_context(process_admin.watch())
        view = history.view(View(workspace_id="w"))
        view.take(await watcher.response())
        for _ in range(ASKS):
            begun = history.begin()
            ask = await process_admin.ask()
            history.acknowledge(("ask", ask.id), begun, ask)
            kinds = ["answer", "reject", "cancel"] * (CLIENTS // 3)
            async with asyncio.TaskGroup() as group:
                for number, client in enumerate(clients):
                    group.create_task(resolve(history, client, kinds[number], ask.id, f"{kinds[number]}-{number}"))
        while view.resume != 2 * ASKS:
            view.take(await watcher.response())
    history.check(*await survey(process_admin, ["w"]))
    assert len(history.lost) == ASKS * (CLIENTS - 1), "each loser was told"
    assert len(view.events) == 2 * ASKS, "one event each"


async def test_watchers_that_join_at_random_moments_end_with_exactly_the_pending_set(tmp_path: Path) -> None:
    await join_at_random(tmp_path / "data", clients=6, joins=40, seed=3)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(5))
async def test_many_watchers_that_join_at_random_moments_end_with_exactly_the_pending_set(
    tmp_path: Path, seed: int
) -> None:
    await join_at_random(tmp_path / "data", clients=16, joins=400, seed=seed)


async def join_at_random(data_dir: Path, *, clients: int, joins: int, seed: int) -> None:
    """Let watchers join one after another, each at another point of the others' work."""
    history, endpoint = History(), Endpoint()
    with serving(configured(data_dir, HEARTBEAT)) as server:
        endpoint.rise(server.address)
        async with connected(server.address, server.credential) as admin:
            keys = await credentials(admin, clients)
            load = Load(history, endpoint, ["w"], seed)
            joined: list[View] = []
            async with asyncio.TaskGroup() as watching, working(load, keys, views(["w"])):
                for number in range(joins):
                    moment = len(history.acknowledged) + 3 + 7 * number % 11
                    await eventually(lambda moment=moment: len(history.acknowledged) >= moment)  # type: ignore[misc]
                    joined.append(View(workspace_id="w"))
                    name = f"joiner-{number}"
                    watching.create_task(load.watch(joined[-1], keys[0], restless=False, name=name))
            logs, asks = await survey(admin, ["w"])
            history.check(logs, asks)
            pending = [ask for ask in asks["w"] if ask.status == PENDING]
            assert all(view.pending() == pending for view in joined)
            assert len({view.start for view in joined}) > joins / 2, "they joined at different moments"
            assert resolutions(logs["w"]) > joins
