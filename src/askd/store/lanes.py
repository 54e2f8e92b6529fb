"""Where commands wait for the writer: in lanes, or aside while somebody keeps their workspace locked."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from askd.domain.errors import unavailable
from askd.domain.sessions import Command, workspace_of
from askd.store.batch import Outcome
from askd.store.database import refusal

#: Seconds that a command waits for a locked workspace, and commands that may wait for one.
PATIENCE = 3.0
ASIDE = 256
#: Seconds between looks at the locked workspaces.
PAUSE = 0.05


class Waiting:
    """A command, and the future of whoever waits for what becomes of it."""

    __slots__ = ("command", "future", "since", "uncertain", "workspace_id")

    def __init__(self, command: Command) -> None:
        loop = asyncio.get_running_loop()
        self.command = command
        self.workspace_id = workspace_of(command)
        self.future: asyncio.Future[Outcome] = loop.create_future()
        self.since = loop.time()
        #: Whether an attempt may have been committed of which the answer was lost.
        self.uncertain = False

    def fail(self, error: Exception) -> None:
        """Tell whoever waits that there will be no outcome."""
        if not self.future.done():
            self.future.set_exception(refusal(error))


class Lane:
    """A queue, and a task that calls `commit` as long as something is in it."""

    def __init__(self, commit: "Callable[[Lane], Awaitable[None]]", name: str) -> None:
        self._commit = commit
        self.queue: deque[Waiting] = deque()
        self._filled = asyncio.Event()
        self._closed = False
        self._task = asyncio.create_task(self._run(), name=name)

    def put(self, waiting: Waiting) -> None:
        """Add a command behind the others."""
        self.queue.append(waiting)
        self._filled.set()

    def put_first(self, waiting: Waiting) -> None:
        """Add a command before the others."""
        self.queue.appendleft(waiting)
        self._filled.set()

    def take(self, most: int) -> list[Waiting]:
        """The next commands, without those whose callers have left."""
        taken = [self.queue.popleft() for _ in range(min(len(self.queue), most))]
        return [waiting for waiting in taken if not waiting.future.cancelled()]

    async def close(self) -> None:
        """Finish the commands that wait."""
        self._closed = True
        self._filled.set()
        await self._task

    async def _run(self) -> None:
        while self.queue or not self._closed:
            await self._filled.wait()
            if self.queue:
                await self._commit(self)
            elif not self._closed:
                self._filled.clear()


class _Locked:
    """A workspace that was locked when it was last tried, and its commands."""

    def __init__(self) -> None:
        self.queue: deque[Waiting] = deque()
        #: When it is thought free again, where no command tries it.
        self.until = asyncio.get_running_loop().time() + PATIENCE


class Aside:
    """Workspaces that somebody keeps locked, tried one after another. `commit` returns False where one still is; with
    the first success the workspace's other commands go back to its lane."""

    def __init__(self, commit: Callable[[list[Waiting]], Awaitable[bool]], put_back: Callable[[Waiting], None]) -> None:
        self._commit = commit
        self._put_back = put_back
        self._locked: dict[str, _Locked] = {}
        self._filled = asyncio.Event()
        self._finishing = False
        self._task = asyncio.create_task(self._run(), name="writer aside")

    def __contains__(self, workspace_id: str) -> bool:
        return workspace_id in self._locked

    def __len__(self) -> int:
        return sum(len(locked.queue) for locked in self._locked.values())

    def put(self, waiting: Waiting) -> None:
        """Set a command aside, and with it the workspace."""
        locked = self._locked.setdefault(waiting.workspace_id, _Locked())
        if len(locked.queue) < ASIDE:
            locked.queue.append(waiting)
        else:
            waiting.fail(_refusal())
        self._filled.set()

    def finish(self) -> None:
        """From now on put nothing back."""
        self._finishing = True

    async def close(self) -> None:
        """Finish the commands that wait. None waits for longer than PATIENCE."""
        self._finishing = True
        self._filled.set()
        await self._task

    async def _run(self) -> None:
        while len(self) or not self._finishing:
            await self._filled.wait()
            for workspace_id, locked in list(self._locked.items()):
                await self._try(workspace_id, locked)
            if self._locked:
                await asyncio.sleep(PAUSE)
            elif not self._finishing:
                self._filled.clear()

    async def _try(self, workspace_id: str, locked: _Locked) -> None:
        now = asyncio.get_running_loop().time()
        batch = _take(locked.queue, now - PATIENCE)
        if not batch:
            if now > locked.until:
                del self._locked[workspace_id]
        elif await self._commit(batch):
            self._free(workspace_id)
        else:
            locked.until = now + PATIENCE
            locked.queue.extendleft(reversed(batch))

    def _free(self, workspace_id: str) -> None:
        locked = self._locked.pop(workspace_id)
        if self._finishing and locked.queue:
            self._locked[workspace_id] = locked
            return
        while locked.queue:
            self._put_back(locked.queue.pop())


def _take(queue: deque[Waiting], since: float) -> list[Waiting]:
    """All commands of a queue but those whose callers have left, and those that have waited for too long."""
    taken = [waiting for waiting in queue if not waiting.future.cancelled()]
    queue.clear()
    for waiting in taken:
        if waiting.since < since:
            waiting.fail(_refusal())
    return [waiting for waiting in taken if waiting.since >= since]


def _refusal() -> Exception:
    return unavailable("the workspace is locked")
