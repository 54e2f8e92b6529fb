"""The client process: `python -m bench.load` reads a task from standard input and prints its figures as JSON.

It is a process of its own so that no server shares its interpreter, and one process for both sides of a pair, so that
both meet the same client.
"""

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict

import uvloop

from bench import answering, cycles, gateway, idle, joining, shared, stored, sweeping, throughput, watching
from bench.plan import Task
from bench.series import Series

MEASURES: dict[str, Callable[[Task], Awaitable[list[Series]]]] = {
    "ask64": throughput.ask,
    "read64": throughput.read,
    "cycle1": cycles.one_at_a_time,
    "cycle16": cycles.many_at_once,
    "answering": answering.under_load,
    "fanout": watching.fan_out,
    "gateway": gateway.gets,
    "idle": idle.idle,
    "join": joining.joined,
    "memory": watching.memory,
    "patterns": stored.patterns,
    "scale": stored.latencies,
    "end_session": sweeping.end_session,
    "expire": sweeping.expire,
    "one_server": shared.one_server,
    "two_servers": shared.two_servers,
}


async def measure(task: Task) -> list[Series]:
    return await MEASURES[task.measure](task)


if __name__ == "__main__":
    figures = uvloop.run(measure(Task.load(sys.stdin.read())))
    print(json.dumps([asdict(series) for series in figures]))
