"""A client that goes away at any moment leaks nothing, and leaves an outcome that its retry learns (CONTRACT 3).

Each use case is made as a handler makes it, with a credential to look at first, and cancelled at each of its awaits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from sqlalchemy import Connection, select
from tests.conditions import eventually
from tests.service.cancelling import Moment, cancelled_at
from tests.service.services import Service
from tests.store.backends import Backend
from tests.store.commands import ANN, answer, create, draft
from tests.store.databases import Store

from askd.domain.asks import AnswerWith, Ask, AskFilter, RejectWith, Resolution, Withdraw
from askd.domain.errors import AskdError, Code
from askd.domain.principals import Access, Caller, Grant, Principal, Role
from askd.domain.sessions import TurnOutcome
from askd.service.asks import AskReference
from askd.store.rows import Part
from askd.store.tables import asks, payloads, workspaces

ADMIN = Caller(principal=ANN, grants=frozenset({Grant(role=Role.ADMIN, workspace_id="*")}))
W = AskFilter(workspace_id="w")
USER = Principal.parse("user:ann")


@dataclass(kw_only=True)
class Client:
    """A client that comes with a credential that this server has not seen, to a pending and to a resolved ask."""

    service: Service
    credential: str
    key_id: str
    pending: Ask
    resolved: Ask
    number: int

    @property
    def session(self) -> str:
        return self.pending.session_id

    async def enter(self) -> Access:
        return (await self.service.authority.authenticate(self.credential)).enter("w")

    # --- use cases; each is its own retry ---

    async def create(self) -> None:
        drafted = draft(turn="another")
        await self.service.asks.create(await self.enter(), lambda: drafted, f"request {self.number}", str)

    async def answer(self) -> None:
        await self._resolve(AnswerWith(answer_id="answer", submissions=["yes"]))

    async def _resolve(self, resolution: Resolution) -> None:
        await self.service.asks.resolve(await self.enter(), self._reference, lambda: resolution, str)

    async def get(self) -> None:
        await self.service.asks.get(await self.enter(), self._reference)

    async def wait_for_a_resolved_ask(self) -> None:
        reference = AskReference(ask_id=self.resolved.id)
        await self.service.asks.wait(await self.enter(), reference, None)

    async def wait_in_vain(self) -> None:
        await self.service.asks.wait(await self.enter(), self._reference, 0.001)

    async def page(self) -> None:
        await self.service.asks.page(await self.enter(), W, 0, 10)

    async def watch(self) -> None:
        await self._first_response(None)

    async def resume(self) -> None:
        await self._first_response(0)

    async def resume_where_nothing_happens(self) -> None:
        await self._first_response(await self._newest())

    async def open_session(self) -> None:
        await self.service.sessions.open_session(await self.enter(), "child", "parent")

    async def end_turn(self) -> None:
        await self.service.sessions.end_turn(await self.enter(), self.session, "t", TurnOutcome.COMPLETED)

    async def end_session(self) -> None:
        await self.service.sessions.end_session(await self.enter(), self.session)

    async def make_a_key(self) -> None:
        await self.service.keys.create(ADMIN, "a key", frozenset(), None)

    async def list_keys(self) -> None:
        await self.service.keys.list_keys(ADMIN)

    async def grant(self) -> None:
        await self.service.keys.grant(ADMIN, USER, Grant(role=Role.VIEWER, workspace_id="w"))

    async def review(self) -> None:
        with self.service.streams.open(await self.enter()):
            await self.service.authority.review()

    # --- those that cannot be repeated tell by their refusal that they were done ---

    async def reject(self) -> None:
        await once(self._resolve(RejectWith(reason="no")), "rejected")

    async def cancel(self) -> None:
        await once(self._resolve(Withdraw()), "cancelled")

    async def wait(self) -> None:
        """Wait for an ask that is resolved meanwhile."""
        await self._wait(await self.enter(), None)

    async def wait_for_a_while(self) -> None:
        await self._wait(await self.enter(), 60.0)

    async def _wait(self, access: Access, seconds: float | None) -> None:
        resolving = asyncio.create_task(self._resolve_once_somebody_waits())
        try:
            await self.service.asks.wait(access, self._reference, seconds)
        finally:
            await asyncio.shield(resolving)

    async def _resolve_once_somebody_waits(self) -> None:
        await self.service.asleep(0)
        await once(self.service.ask(answer(self.pending)), "answered")

    @property
    def _reference(self) -> AskReference:
        return AskReference(ask_id=self.pending.id)

    async def _newest(self) -> int:
        return self.service.history.revision()

    async def _first_response(self, after: int | None) -> None:
        access = await self.enter()
        async with aclosing(self.service.asks.watch(access, W, after)) as batches:
            await anext(batches)


async def once(call: Awaitable[object], status: str) -> None:
    """Make a call that may have been made before, and is then refused."""
    try:
        await call
    except AskdError as error:
        if (error.code, error.metadata.get("status")) != (Code.ASK_ALREADY_RESOLVED, status):
            raise


USE_CASES: dict[str, Callable[[Client], Coroutine[Any, Any, None]]] = {
    "create": Client.create,
    "answer": Client.answer,
    "reject": Client.reject,
    "cancel": Client.cancel,
    "get": Client.get,
    "wait": Client.wait,
    "wait for a while": Client.wait_for_a_while,
    "wait for a resolved ask": Client.wait_for_a_resolved_ask,
    "wait in vain": Client.wait_in_vain,
    "page": Client.page,
    "watch": Client.watch,
    "resume": Client.resume,
    "resume where nothing happens": Client.resume_where_nothing_happens,
    "open a session": Client.open_session,
    "end a turn": Client.end_turn,
    "end a session": Client.end_session,
    "make a key": Client.make_a_key,
    "list keys": Client.list_keys,
    "grant": Client.grant,
    "review": Client.review,
}


async def client(service: Service, number: int) -> Client:
    """A client of its own."""
    pending, resolved = await service.do(create(session=f"s{number}", turn="t"), create(session="r"))
    answered = await service.ask(answer(resolved))
    grants = frozenset({Grant(role=Role.ADMIN, workspace_id="w")})
    key, credential = await service.keys.create(ADMIN, "a key", grants, None)
    return Client(
        service=service, credential=credential, key_id=key.id, pending=pending, resolved=answered, number=number
    )


@pytest.mark.parametrize("moment", list(Moment))
@pytest.mark.parametrize("use_case", list(USE_CASES.values()), ids=list(USE_CASES))
async def test_a_call_that_is_cancelled_at_any_await_leaves_nothing_half_done(
    service: Service,
    store: Store,
    backend: Backend,
    use_case: Callable[[Client], Coroutine[Any, Any, None]],
    moment: Moment,
) -> None:
    service.asks._heartbeat = 0.001
    faults: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    for number in range(1, 20):
        made = await client(service, number)
        before = asyncio.all_tasks()
        reached = await cancelled_at(partial(use_case, made), number, moment)
        await use_case(made)  # the retry
        await use_case(made)
        await eventually(lambda: asyncio.all_tasks() == before)  # noqa: B023
        await eventually(lambda: backend.under_way(store.database) == 0)
        assert not service.hub._rings
        assert not service.hub._waits
        assert not service.streams._open
        assert service.writer.waiting == 0
        assert await store.read(half_written) == []
        if not reached:
            break
    assert number > 1, "nothing was cancelled"
    assert not reached, "there are more awaits than the test looks at"
    assert faults == []


def half_written(connection: Connection) -> list[str]:
    """What is wrong with what is stored."""
    found = connection.execute(select(asks)).all()
    parts = {(row.ask_id, row.part) for row in connection.execute(select(payloads.c.ask_id, payloads.c.part))}
    wrong = [f"{row.id} has no questions" for row in found if (row.id, Part.QUESTIONS) not in parts]
    wrong += [f"{row.id} has no answers" for row in found if row.answer_id and (row.id, Part.ANSWERS) not in parts]
    wrong += [f"{part} is of no ask" for part in parts if part[0] not in {row.id for row in found}]
    for workspace in connection.execute(select(workspaces)):
        revisions = [
            revision
            for row in found
            if row.workspace_id == workspace.id
            for revision in (row.created_revision, row.resolved_revision)
            if revision is not None
        ]
        if sorted(revisions) != list(range(1, workspace.revision + 1)):
            wrong.append(f"{workspace.id} has gaps")
    return wrong


@pytest.mark.parametrize("moment", list(Moment))
async def test_a_revocation_that_is_cancelled_at_any_await_is_whole(
    service: Service, store: Store, backend: Backend, moment: Moment
) -> None:
    """Where it was committed, the key is refused from the next call on."""
    for number in range(1, 10):
        made = await client(service, number)
        await made.enter()  # so that this server knows the key
        before = asyncio.all_tasks()
        reached = await cancelled_at(partial(service.keys.revoke, ADMIN, made.key_id), number, moment)
        await eventually(lambda: asyncio.all_tasks() == before and not backend.under_way(store.database))  # noqa: B023
        (key,) = [key for key in await service.keys.list_keys(ADMIN) if key.id == made.key_id]
        assert await accepted(made) == (key.revoked_at is None)
        await service.keys.revoke(ADMIN, made.key_id)
        assert not await accepted(made)
        if not reached:
            break
    assert not reached


async def accepted(made: Client) -> bool:
    """Whether the client's credential is accepted."""
    try:
        await made.enter()
    except AskdError as error:
        if error.code is not Code.UNAUTHENTICATED:
            raise
        return False
    return True


@pytest.mark.parametrize("moment", list(Moment))
async def test_requests_that_were_cancelled_and_repeated_are_asked_once(
    service: Service, store: Store, moment: Moment
) -> None:
    made = await client(service, 1)
    before = len((await store.rows())["asks"])
    for number in (1, 2):
        await cancelled_at(made.create, number, moment)
    await made.create()
    assert len((await store.rows())["asks"]) == before + 1
