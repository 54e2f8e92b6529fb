"""`askd watch` as programs read it."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.cli.program import Program
from tests.client.restartable import RestartableServer


class Watching:
    """A running `askd watch --json`."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def next(self) -> Any:
        """The next line that it writes."""
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def told(self, count: int) -> list[tuple[str, int]]:
        """The types and revisions of the next lines."""
        return [(line["type"], line["revision"]) for line in (self.next() for _ in range(count))]

    def interrupt(self) -> tuple[int, str, str]:
        """Press Ctrl-C; the exit code, and what it wrote since."""
        self.process.send_signal(signal.SIGINT)
        output, errors = self.process.communicate()
        return self.process.returncode, output, errors


@contextmanager
def watch(askd: Program, *arguments: str) -> Iterator[Watching]:
    """A watch that has begun."""
    with askd.started("watch", "--json", *arguments) as process:
        yield Watching(process)


def test_a_watch_outlives_a_kill_of_the_server_and_writes_every_event_once(
    askd: Program, mortal_server: RestartableServer
) -> None:
    askd.text("ask", "s", "before")
    with watch(askd) as watching:
        assert watching.told(2) == [("pending", 1), ("synced", 1)]
        ask_id = askd.text("ask", "s", "x").strip()
        mortal_server.kill()
        mortal_server.start()
        askd.text("answer", ask_id, "--text", "yes")
        assert watching.told(2) == [("asked", 2), ("answered", 3)]
        assert watching.interrupt() == (130, "", "")


def test_a_watch_begins_after_a_revision_and_keeps_to_its_filters(askd: Program) -> None:
    first = askd.text("ask", "s", "x", "--turn", "t").strip()
    askd.text("ask", "other", "x")
    askd.text("cancel", first)
    lines = askd.text("watch", "--until-synced", "--after", "1", "--json").splitlines()
    assert [(line["type"], line["revision"]) for line in map(json.loads, lines)] == [
        ("asked", 2),
        ("cancelled", 3),
        ("synced", 3),
    ]
    filtered = askd.text("watch", "--until-synced", "--after", "0", "--session", "s", "--turn", "t", "--json")
    assert [json.loads(line)["type"] for line in filtered.splitlines()] == ["asked", "cancelled", "synced"]
    only = askd.text("watch", "--until-synced", "--after", "0", "--status", "cancelled", "--json").splitlines()
    assert json.loads(only[0])["ask"] == askd.json("get", first)
    assert len(only) == 2


def test_people_read_an_event_a_line(askd: Program) -> None:
    ask_id = askd.text("ask", "s", "Ship?", "--option", "yes=Yes, now").strip()
    askd.text("answer", ask_id, "--select", "yes")
    asked, answered, synced = askd.text("watch", "--until-synced", "--after", "0").splitlines()
    assert asked.split()[2:] == ["asked", ask_id, "s", "Ship?"]
    assert answered.split()[2:] == ["answered", ask_id, "s", "Ship?", "→", "Yes,", "now"]
    assert "revision 2" in synced


def test_a_watch_that_is_refused_ends(askd: Program) -> None:
    made = askd.json("keys", "create", "reader", "--grant", f"viewer@{askd.settings['ASKD_WORKSPACE']}")
    reader = Program(askd.settings | {"ASKD_KEY": made["secret"]})
    with watch(reader) as watching:
        assert watching.told(1) == [("synced", 0)]
        askd.text("keys", "revoke", made["key"]["id"])
        output, errors = watching.process.communicate()
        assert (watching.process.returncode, output) == (1, "")
        assert errors.startswith("error: unauthenticated: ")
