"""Waiting for one ask's resolution (CONTRACT section 5, WaitAsk)."""

import asyncio
import gc
from collections.abc import Callable, Sequence

import pytest
from tests.conditions import eventually
from tests.service.services import Service
from tests.store.commands import access, answer, create, reject, withdraw
from tests.store.databases import Store
from tests.store.stages import away

from askd.domain.asks import Ask, AskEvent, AskStatus, ResolveAsk
from askd.domain.errors import AskdError, Code
from askd.domain.principals import Caller, Grant, Role
from askd.service.asks import AskReference

FOREVER = None
Resolve = Callable[[Ask], ResolveAsk]


def waiting(service: Service, ask: Ask | str, seconds: float | None = FOREVER) -> "asyncio.Task[Ask]":
    """A client that waits."""
    reference = AskReference(ask_id=ask if isinstance(ask, str) else ask.id)
    client = asyncio.create_task(service.asks.wait(access(), reference, seconds))
    service.clients.append(client)
    return client


@pytest.mark.parametrize("resolve", [answer, reject, withdraw])
async def test_a_wait_for_a_resolved_ask_is_over_at_once(service: Service, resolve: Resolve) -> None:
    ask = await service.ask(create())
    resolved = await service.ask(resolve(ask))
    assert await waiting(service, ask, 0.0) == await waiting(service, ask) == resolved


@pytest.mark.parametrize("resolve", [answer, reject, withdraw])
async def test_a_wait_is_over_with_the_resolution(service: Service, resolve: Resolve) -> None:
    ask, other = await service.do(create(), create())
    clients = [waiting(service, ask) for _ in range(3)]
    others = waiting(service, other)
    await service.asleep(4)
    resolved = await service.ask(resolve(ask))
    assert await asyncio.gather(*clients) == [resolved] * 3
    assert not others.done()


async def test_a_resolution_while_the_ask_is_looked_up_is_not_missed(service: Service) -> None:
    """The look-up may find the ask as it was before."""
    ask = await service.ask(create())
    with service.stage.holding_what_was_read() as gate:
        client = waiting(service, ask)
        await gate.reached()
        resolved = await service.ask(answer(ask))
    assert await client == resolved


async def test_a_wait_whose_time_is_over_is_told_the_pending_ask(service: Service) -> None:
    ask = await service.ask(create())
    for seconds in (0.0, 0.01):
        assert await waiting(service, ask, seconds) == ask


async def test_a_wait_whose_time_is_over_is_told_what_the_database_says(service: Service, store: Store) -> None:
    """Another server may have resolved the ask."""
    ask = await service.ask(create())
    client = waiting(service, ask, 1.0)  # long enough to resolve the ask within it
    await service.asleep()
    resolved = await store.ask(answer(ask))
    assert await client == resolved
    assert resolved.status is AskStatus.ANSWERED


async def test_a_wait_for_an_unknown_ask_is_not_found(service: Service) -> None:
    with pytest.raises(AskdError) as refused:
        await waiting(service, "que_unknown")
    assert refused.value.code is Code.NOT_FOUND
    assert refused.value.resource == ("ask", "que_unknown")


@pytest.mark.parametrize("grant", [("v", ""), ("w", "r")], ids=["another workspace", "another session"])
async def test_a_wait_for_an_ask_that_the_caller_does_not_see_is_not_found(
    service: Service, grant: tuple[str, str]
) -> None:
    ask = await service.ask(create())
    workspace, session = grant
    held = Grant(role=Role.VIEWER, workspace_id=workspace, session_id=session)
    stranger = Caller(principal=access().principal, grants=frozenset({held})).enter(workspace)
    with pytest.raises(AskdError) as refused:
        await service.asks.wait(stranger, AskReference(ask_id=ask.id), FOREVER)
    assert refused.value.code is Code.NOT_FOUND


async def test_draining_ends_every_wait_as_unavailable(service: Service) -> None:
    ask = await service.ask(create())
    clients = [waiting(service, ask), waiting(service, ask, 60.0)]
    await service.asleep(2)
    service.streams.close()
    for client in [*clients, waiting(service, ask)]:
        with pytest.raises(AskdError) as ended:
            await client
        assert ended.value.code is Code.UNAVAILABLE
        assert ended.value.retry_after


async def test_draining_ends_a_wait_that_looks_its_ask_up_and_nothing_else_comes_of_it(service: Service) -> None:
    """An error that nobody retrieves would be logged as a fault of the program."""
    ask = await service.ask(create())
    heard: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context))
    with service.stage.holding_what_was_read() as gate:
        client = waiting(service, ask)
        await gate.reached()
        service.streams.close()
    with pytest.raises(AskdError) as ended:
        await client
    assert ended.value.code is Code.UNAVAILABLE
    service.clients.clear()
    del client
    gc.collect()
    assert heard == []


async def test_a_database_that_is_away_ends_a_wait_as_unavailable(service: Service) -> None:
    ask = await service.ask(create())
    service.stage.failure = away()
    with pytest.raises(AskdError) as ended:
        await waiting(service, ask)
    assert ended.value.code is Code.UNAVAILABLE


async def test_a_client_that_goes_away_as_its_ask_is_resolved_has_gone(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancellation must not be swallowed, whatever else happens at that moment."""
    ask = await service.ask(create())
    client = waiting(service, ask, 60.0)
    await service.asleep()
    publish = service.hub.publish

    def publish_and_cancel(events: Sequence[AskEvent]) -> None:
        publish(events)
        client.cancel()

    monkeypatch.setattr(service.hub, "publish", publish_and_cancel)
    await service.ask(answer(ask))
    await asyncio.wait([client])
    assert client.cancelled()


async def test_a_commit_of_which_nobody_was_told_ends_the_waits_once_the_database_is_back(service: Service) -> None:
    """A commit succeeded, its answer was lost, and the retry found the database away: nothing had been published."""
    ask = await service.ask(create())
    client = waiting(service, ask)
    await service.asleep()
    service.stage.lost_answers, service.stage.failed_writes = {2}, {3}
    with pytest.raises(AskdError):
        await service.ask(answer(ask))
    await service.ask(create(workspace="v"))  # the database is back
    await service.poll()
    async with asyncio.timeout(5):
        assert (await client).status is AskStatus.ANSWERED


async def test_waits_leave_nothing_behind(service: Service) -> None:
    before = asyncio.all_tasks()
    ask = await service.ask(create())
    over, gone, resolved = waiting(service, ask, 0.0), waiting(service, ask), waiting(service, ask)
    await over
    gone.cancel()
    await service.ask(answer(ask))
    await asyncio.wait([gone, resolved])
    await eventually(lambda: asyncio.all_tasks() == before)
    assert not service.hub._waits
    assert not service.streams._open
