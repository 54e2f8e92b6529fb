"""Scenarios, and how one is run: see Scenarios in README.md."""

import json
import secrets
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from tests.conformance.drivers import Driver, Result
from tests.conformance.matching import at, check, filled, matches
from tests.conformance.places import Place

FOLDER = Path(__file__).with_name("scenarios")
LIMIT = 60.0  # seconds in which any result comes, a restart of the server included

Step = Mapping[str, Any]


def scenarios() -> list[tuple[str, Step]]:
    """Every scenario with its name: the file's and its title."""
    return [
        (f"{path.stem}: {scenario['title']}", scenario)
        for path in sorted(FOLDER.glob("*.json"))
        for scenario in json.loads(path.read_text(encoding="utf-8"))
    ]


class Run:
    """One scenario against one server by one driver."""

    def __init__(self, scenario: Step, place: Place, driver: Driver) -> None:
        self._scenario = scenario
        self._place = place
        self._driver = driver
        self._later: dict[str, Future[Result]] = {}
        self._variables: dict[str, Any] = {
            "workspace": f"w-{secrets.token_hex(8)}",
            "address": place.address,
            "dead": place.dead,
            "silent": place.silent,
        }

    def run(self) -> None:
        """AssertionError where the scenario does not go as it says."""
        clients = self._scenario["clients"]
        for name, client in clients.items():
            self._connect(name, client if isinstance(client, dict) else {"grants": client})
        self._steps(self._scenario["steps"])
        for name in clients:
            _succeeded(self._send({"client": name, "do": "close"}))

    def _connect(self, name: str, client: Step) -> None:
        given = {field: filled(value, self._variables) for field, value in client.items() if field != "grants"}
        args = {"address": self._place.address, "workspace": self._variables["workspace"]} | given
        created = self._place.create_key(args["workspace"], client["grants"])
        self._variables |= {f"key.{name}": created.secret, f"id.{name}": created.key.id}
        args = {"key": created.secret} | args
        _succeeded(self._send({"client": name, "do": "connect", "args": args}))

    def _steps(self, steps: list[Step]) -> None:
        for number, step in enumerate(steps):
            try:
                self._step(step)
            except (AssertionError, TimeoutError) as failure:
                failure.add_note(f"in step {number}: {json.dumps(step)[:1000]}")
                raise

    def _step(self, step: Step) -> None:
        match step:
            case {"repeat": count, "steps": steps}:
                for index in range(count):
                    self._variables["i"] = index
                    self._steps(steps)
            case {"server": what}:
                self._restart(what)
            case {"race": commands}:
                self._race(step, [self._send(command) for command in commands])
            case {"together": commands}:
                for command, result in [(command, self._send(command)) for command in commands]:
                    self._judge(command, result)
            case {"events": expected}:
                self._events(step, filled(expected, self._variables))
            case {"finish": name}:
                self._judge(step, self._later.pop(filled(name, self._variables)))
            case {"later": name}:
                self._later[filled(name, self._variables)] = self._send(step)
            case _:
                self._judge(step, self._send(step))

    def _events(self, step: Step, expected: list[Any]) -> None:
        following = {"client": step["client"], "do": "watch.next", "args": {"watch": step["watch"]}}
        for _ in list(expected):
            event = _succeeded(self._send(following))
            index = next((i for i, one in enumerate(expected) if matches(one, event)), 0) if "inAnyOrder" in step else 0
            check(expected.pop(index), event)

    def _restart(self, what: str) -> None:
        if what != "start":
            self._place.kill()
        if what != "kill":
            self._place.start()

    def _send(self, command: Step) -> "Future[Result]":
        args = filled(command.get("args", {}), self._variables)
        return self._driver.send(command["client"], command["do"], args)

    def _judge(self, step: Step, awaited: "Future[Result]") -> None:
        if "error" in step:
            self._refused(step["error"], awaited.result(LIMIT))
        else:
            self._expect(step, _succeeded(awaited))

    def _expect(self, step: Step, value: Any, wanted: str = "expect") -> None:
        check(filled(step.get(wanted, {}), self._variables), value)
        for name, path in step.get("bind", {}).items():
            self._variables[name] = at(path, value)

    def _refused(self, expected: Any, result: Result) -> None:
        assert "error" in result, f"expected the error {expected}, got {str(result)[:500]}"
        wanted = {"code": expected} if isinstance(expected, str) else expected
        check(filled(wanted, self._variables), result["error"], "error")

    def _race(self, step: Step, racing: list["Future[Result]"]) -> None:
        results = [awaited.result(LIMIT) for awaited in racing]
        won = [result["ok"] for result in results if "ok" in result]
        assert len(won) == 1, f"{len(won)} of the race won: {results}"
        self._expect(step, won[0], "winner")
        for result in results:
            if "error" in result:
                self._refused(step["losers"], result)


def _succeeded(awaited: "Future[Result]") -> Any:
    result = awaited.result(LIMIT)
    assert "ok" in result, f"failed: {result.get('error')}"
    return result["ok"]
