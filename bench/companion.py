"""Another client process, which a measure tells what to do: `python -m bench.companion MODULE.ROLE`.

What it does meanwhile must not share the interpreter of the client that is timed. It reads its task and then a command
on each line of standard input, answers each with a line of JSON, and ends where its input does.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import Any

import uvloop

from bench.plan import Task

END_LIMIT = 20.0  # seconds that it may take to end
LINE_LIMIT = 1 << 20  # bytes of an answer

Commands = Mapping[str, Callable[[], Awaitable[Any]]]
Role = Callable[[Task], AbstractAsyncContextManager[Commands]]


class Companion:
    """The other process, as a measure sees it."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def do(self, command: str) -> Any:
        """What it answers."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n".encode())
        if not (line := await self._process.stdout.readline()):
            raise EOFError(f"the companion ended at {command!r}")
        return json.loads(line)


@asynccontextmanager
async def companion(task: Task, role: str) -> AsyncIterator[Companion]:
    """Such a process, ended afterwards."""
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "bench.companion", role)
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, limit=LINE_LIMIT)
    assert process.stdin is not None
    process.stdin.write(f"{task.dump()}\n".encode())
    try:
        yield Companion(process)
        process.stdin.close()
        await asyncio.wait_for(process.wait(), END_LIMIT)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


class Background:
    """Something that is done again and again between two commands, by each of some callers."""

    def __init__(self, once: Callable[[int], Awaitable[Any]], callers: int) -> None:
        self._once = once
        self._callers = callers
        self._going = False
        self._running: list[asyncio.Task[list[Any]]] = []
        self._begin = 0.0

    def commands(self) -> Commands:
        return {"start": self._start, "stop": self._stop}

    async def _start(self) -> None:
        self._going = True
        self._begin = time.perf_counter()
        self._running = [asyncio.create_task(self._repeat(caller)) for caller in range(self._callers)]

    async def _stop(self) -> dict[str, Any]:
        """What each time gave, and how often it was done a second; what has begun is finished."""
        self._going = False
        results = [result for caller in await asyncio.gather(*self._running) for result in caller]
        return {"results": results, "rate": len(results) / (time.perf_counter() - self._begin)}

    async def _repeat(self, caller: int) -> list[Any]:
        results = []
        while self._going:
            results.append(await self._once(caller))
        return results


async def serve(role: Role) -> None:
    task = Task.load(sys.stdin.readline())
    async with role(task) as commands:
        while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
            print(json.dumps(await commands[command]()), flush=True)


if __name__ == "__main__":
    # The roles are measures' own, and these import this module.
    _measure, _role = sys.argv[1].split(".")
    uvloop.run(serve(getattr(import_module(f"bench.{_measure}"), _role)))
