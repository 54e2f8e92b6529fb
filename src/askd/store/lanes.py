"""Where commands wait for the writer: in lanes, or aside while somebody keeps their workspace locked."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from askd.domain.errors import AskdError, unavailable
from askd.domain.sessions import Command
from askd.store.batch import Outcome
from askd.store.database import refusal

#: Seconds that a command waits for a locked workspace, and commands that may wait for one.
PATIENCE = 3.0
ASIDE = 256
#: Seconds that making a batch's commands may take, unless a single one takes longer.
SPAN = 0.010
#: The size of a batch after which the next is gathered, and the seconds after which this ends: without a command, and
#: in all.
MANY = 8
QUIET = 0.006
GATHERING = 0.030
#: Seconds between looks at the locked workspaces.
PAUSE = 0.05


class Waiting:
    """A command to be made once its turn comes, and the future of whoever waits for what is made of its outcome."""

    __slots__ = ("_finish", "_make", "_told", "command", "future", "since", "uncertain", "workspace_id")

    command: Command

    def __init__(self, workspace_id: str, make: Callable[[], Command], finish: Callable[[Outcome], Any]) -> None:
        loop = asyncio.get_running_loop()
        self.workspace_id = workspace_id
        self._make: Callable[[], Command] | None = make
        self._finish = finish
        #: What was made of an outcome that is not committed yet, and that outcome.
        self._told: tuple[Outcome | AskdError, Any, Exception | None] | None = None
        self.future: asyncio.Future[Any] = loop.create_future()
        self.since = loop.time()
        #: Whether an attempt may have been committed of which the answer was lost.
        self.uncertain = False

    def prepare(self) -> bool:
        """Make the command, once. Returns False where nobody waits for it, or it is refused at once."""
        if self._make and not self.future.done():
            try:
                self.command, self._make = self._make(), None
            except Exception as error:  # whatever it is, it is the caller's
                self.fail(_bare(error))
        return not self.future.done()

    def conclude(self, outcome: Outcome | AskdError) -> None:
        """Make of an outcome what whoever waits is told, while its commit is under way."""
        if isinstance(outcome, AskdError):
            self._told = outcome, None, outcome
            return
        try:
            self._told = outcome, self._finish(outcome), None
        except Exception as error:  # as above
            self._told = outcome, None, _bare(error)

    def finish(self, outcome: Outcome | AskdError) -> None:
        """Tell whoever waits what became of the command."""
        if self._told is None or self._told[0] is not outcome:  # an earlier attempt's
            self.conclude(outcome)
        if self._told is None or self.future.done():
            return
        _, told, error = self._told
        if error is None:
            self.future.set_result(told)
        else:
            self.future.set_exception(error)

    def fail(self, error: Exception) -> None:
        """Tell whoever waits that there will be no outcome."""
        if not self.future.done():
            self.future.set_exception(refusal(error))


def _bare(error: Exception) -> Exception:
    """A refusal without the frames that it came through: they hold what was refused, and would keep it until the
    collector of garbage comes."""
    return error.with_traceback(None) if isinstance(error, AskdError) else error


class Lane:
    """A queue, and a task that calls `commit` as long as something is in it."""

    def __init__(self, commit: "Callable[[Lane], Awaitable[None]]", name: str) -> None:
        self._commit = commit
        self.queue: deque[Waiting] = deque()
        self._filled = asyncio.Event()
        self._closed = False
        #: How many commands were taken last, and could have been, how many there will be once their callers came again,
        #: and that there are.
        self._taken = 0
        self._most = 0
        self._expected = 0
        self._gathered = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name=name)

    def put(self, waiting: Waiting) -> None:
        """Add a command behind the others."""
        self.queue.append(waiting)
        self._filled.set()
        if len(self.queue) >= self._expected:
            self._gathered.set()

    def put_first(self, waiting: Waiting) -> None:
        """Add a command before the others."""
        self.queue.appendleft(waiting)
        self._filled.set()

    def take(self, most: int) -> list[Waiting]:
        """The next commands, made: at most so many, and few enough to keep the event loop for SPAN. Those whose callers
        have left are left out.

        They are made here, one right after another, and not in the calls they come from: what runs once a call finds
        its code and data out of the processor's caches and takes three times as long.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + SPAN
        taken: list[Waiting] = []
        while self.queue and len(taken) < most and clock() < until:
            waiting = self.queue.popleft()
            if waiting.prepare():
                taken.append(waiting)
        self._taken, self._most = len(taken), most
        return taken

    async def _gather(self) -> bool:
        """Where many commands come, let those arrive that are on their way: a batch costs as much as several commands
        in it, and threads that compete for the interpreter and the processors wait for one another. Over once the
        callers that were served last came again, none came for a while, or it took too long. Returns whether they came:
        where commands come from others, waiting is in vain."""
        clock = asyncio.get_running_loop().time
        until = clock() + GATHERING
        while (seen := len(self.queue)) < self._expected and clock() < until:
            self._gathered.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(QUIET, until - clock())):
                    await self._gathered.wait()
            if len(self.queue) == seen:
                break
        return len(self.queue) >= self._expected

    async def close(self) -> None:
        """Finish the commands that wait."""
        self._closed = True
        self._filled.set()
        await self._task

    async def _run(self) -> None:
        while self.queue or not self._closed:
            await self._filled.wait()
            if self.queue:
                came = self._taken < MANY or self._closed or await self._gather()
                await self._commit(self)
                self._expected = min(self._taken + len(self.queue), self._most) if came else 0
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
    taken = [waiting for waiting in queue if waiting.prepare()]
    queue.clear()
    for waiting in taken:
        if waiting.since < since:
            waiting.fail(_refusal())
    return [waiting for waiting in taken if waiting.since >= since]


def _refusal() -> Exception:
    return unavailable("the workspace is locked")
