"""Clients that ask, resolve and watch at random, through every fault, and write down what they are told."""

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
from tests.chaos.history import ASKED, History, View
from tests.clients import PENDING, Client, connected, grant, refusal_of
from tests.questions import text, text_question

from askd.v1 import ask_pb2
from askd.v1.ask_pb2 import AskEvent, AskState

Attempt = Callable[[Client], Awaitable[AskState]]

#: What a call may end with when its server dies, drains or has no database: try again with the same ids.
PASSING = {grpc.StatusCode.UNAVAILABLE}
#: Asks that the clients keep to choose from. Few, so that they often want the same one.
OPEN = 12


class Endpoint:
    """Where a server is to be found, while there is one. Several clients wait here for the next one."""

    def __init__(self) -> None:
        self.address = ""
        self._up = asyncio.Event()

    def rise(self, address: str) -> None:
        self.address = address
        self._up.set()

    def fall(self) -> None:
        self._up.clear()

    async def reach(self) -> str:
        """The address of a server that is there."""
        await self._up.wait()
        return self.address


class Connection:
    """One client's own connection, made anew whenever the server is another one."""

    def __init__(self, endpoint: Endpoint, credential: str) -> None:
        self._endpoint = endpoint
        self._credential = credential
        self._address = ""
        self._stack = AsyncExitStack()
        self._client: Client | None = None

    async def client(self) -> Client:
        address = await self._endpoint.reach()
        if self._client is None or address != self._address:
            await self.close()
            self._client = await self._stack.enter_async_context(connected(address, self._credential))
            self._address = address
        return self._client

    async def close(self) -> None:
        await self._stack.aclose()
        self._client = None


class Load:
    """Clients at work in some workspaces. Each has a key and a connection of its own."""

    def __init__(self, history: History, endpoint: Endpoint, workspaces: Sequence[str], seed: int) -> None:
        self.history = history
        self.endpoint = endpoint
        self.workspaces = workspaces
        self.seed = seed
        self.stopped = asyncio.Event()
        #: Set once nobody changes anything any more, so that there is an end to come to.
        self.finished = asyncio.Event()
        self._open: list[AskState] = []

    async def work(self, name: str, credential: str) -> None:
        """Ask and resolve until stopped."""
        chance = random.Random(f"{self.seed} {name}")  # noqa: S311  # the same choices each time
        connection = Connection(self.endpoint, credential)
        try:
            number = 0
            while not self.stopped.is_set():
                number += 1
                if len(self._open) < OPEN // 2 or (len(self._open) < OPEN and chance.random() < 0.5):
                    await self._ask(connection, chance, f"{name}-{number}")
                else:
                    await self._resolve(connection, chance, f"{name}-{number}")
        finally:
            await connection.close()

    async def _ask(self, connection: Connection, chance: random.Random, request_id: str) -> None:
        fields = {
            "workspace_id": chance.choice(self.workspaces),
            "session_id": chance.choice("st"),
            "turn_id": chance.choice(["", "t"]),
            "request_id": request_id,
        }
        question = text_question(request_id * chance.randint(1, 40))
        ask = await self._persist(connection, ("ask", request_id), lambda client: client.ask(question, **fields))
        if ask is not None:
            self._open.append(ask)
        if chance.random() < 0.2:  # as a client would that is not sure that it was heard
            await self._persist(connection, ("ask", request_id), lambda client: client.ask(question, **fields))

    async def _resolve(self, connection: Connection, chance: random.Random, name: str) -> None:
        ask = chance.choice(self._open)
        fields = {"workspace_id": ask.workspace_id}
        attempts: dict[str, Attempt] = {
            "answer": lambda client: client.answer(ask.id, text(name), answer_id=name, **fields),
            "reject": lambda client: client.reject(ask.id, reason=name, **fields),
            "cancel": lambda client: client.cancel(ask.id, **fields),
        }
        kind = chance.choice([*attempts, "answer", "answer"])
        for _ in range(2 if kind == "answer" and chance.random() < 0.2 else 1):
            await self._persist(connection, (kind, ask.id, name), attempts[kind])
        self._open[:] = [other for other in self._open if other.id != ask.id]

    async def _persist(self, connection: Connection, identity: tuple[str, ...], attempt: Attempt) -> AskState | None:
        """Try until the change is acknowledged or has lost, and write that down."""
        begun = self.history.begin()
        while True:
            client = await connection.client()
            try:
                ask = await attempt(client)
            except grpc.aio.AioRpcError as error:
                if error.code() in PASSING:
                    await asyncio.sleep(0.01)  # a server that is down or that drains
                    continue
                refused = refusal_of(error)
                assert refused.reason == "ask_already_resolved", refused
                ask_id = identity[1]
                workspace_id = next(known.workspace_id for known in self._known if known.id == ask_id)
                self.history.lose(workspace_id, ask_id, refused.metadata)
                return None
            self.history.acknowledge(identity, begun, ask)
            return ask

    @property
    def _known(self) -> list[AskState]:
        return [change.ask for change in self.history.acknowledged]

    async def watch(self, view: View, credential: str, *, restless: bool, name: str) -> None:
        """Watch through every fault to the end of the finished log; the restless leave by themselves, too."""
        chance = random.Random(f"{self.seed} {name}")  # noqa: S311  # the same choices each time
        connection = Connection(self.endpoint, credential)
        self.history.view(view)
        try:
            while not await self._watch_once(connection, view, chance.randint(1, 30) if restless else None):
                pass
        finally:
            await connection.close()

    async def _watch_once(self, connection: Connection, view: View, responses: int | None) -> bool:
        """Watch over one connection. Returns whether there is nothing more to come."""
        client = await connection.client()
        view.connect()
        fields: dict[str, Any] = {"session_id": view.session_id, "statuses": sorted(view.statuses)}
        if view.resume is not None:
            fields["after_revision"] = view.resume
        try:
            async with client.watch(workspace_id=view.workspace_id, **fields) as watcher:
                while responses is None or responses > 0:
                    view.take(await watcher.response())
                    responses = responses - 1 if responses is not None else None
                    if await self._at_end(client, view):
                        return True
        except grpc.aio.AioRpcError as error:
            if error.code() not in PASSING:
                raise
            await asyncio.sleep(0.05)  # a server that has no database says so at once, again and again
        return False

    async def _at_end(self, client: Client, view: View) -> bool:
        # By the same client: another one's connection would close the one that is watched over.
        if not self.finished.is_set() or view.resume is None:
            return False
        return view.resume >= await newest(client, view.workspace_id)


async def newest(client: Client, workspace_id: str) -> int:
    """The newest revision of a workspace, once it is known."""
    async with client.watch(workspace_id=workspace_id, statuses=[ask_pb2.ASK_STATUS_REJECTED]) as watcher:
        await watcher.until_synced()
        return watcher.revision or 0


Logs = dict[str, list[AskEvent]]
Lists = dict[str, list[AskState]]


async def survey(client: Client, workspaces: Sequence[str]) -> tuple[Logs, Lists]:
    """The log and the list of each workspace."""
    logs, asks = {}, {}
    for workspace_id in workspaces:
        async with client.watch(workspace_id=workspace_id, after_revision=0) as watcher:
            logs[workspace_id] = await watcher.until_synced()
        asks[workspace_id] = await client.list_all(workspace_id=workspace_id, limit=100)
    return logs, asks


async def credentials(admin: Client, count: int) -> list[str]:
    """As many keys that may ask and answer everywhere."""
    return [(await admin.create_key(grant("asker"), grant("answerer"))).secret for _ in range(count)]


def views(workspaces: Sequence[str]) -> list[View]:
    """Watchers of every kind: with and without filters, from a snapshot and from the beginning."""
    made = []
    for workspace_id in workspaces:
        made += [
            View(workspace_id=workspace_id),
            View(workspace_id=workspace_id, start=0, resume=0),
            View(workspace_id=workspace_id, session_id="s"),
            View(workspace_id=workspace_id, session_id="t", start=0, resume=0),
            View(workspace_id=workspace_id, statuses=frozenset({PENDING, ask_pb2.ASK_STATUS_CANCELLED})),
        ]
    return made


@asynccontextmanager
async def working(load: Load, keys: Sequence[str], watchers: Sequence[View]) -> AsyncIterator[None]:
    """The load's clients and watchers while the block runs; stopped and finished afterwards."""
    tasks = []
    async with asyncio.TaskGroup() as watching:
        for number, view in enumerate(watchers):
            watch = load.watch(view, keys[number % len(keys)], restless=number % 2 == 1, name=f"watcher-{number}")
            tasks.append(watching.create_task(watch))
        async with asyncio.TaskGroup() as changing:
            for number, credential in enumerate(keys):
                tasks.append(changing.create_task(load.work(f"client-{number}", credential)))
            try:
                yield
            finally:
                load.stopped.set()
        load.finished.set()
    assert not any(task.cancelled() for task in tasks), "a group says nothing of a task that was cancelled"


def resolutions(log: Sequence[AskEvent]) -> int:
    return sum(event.type != ASKED for event in log)
