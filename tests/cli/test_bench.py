"""`askd bench` against a server that others use too."""

import signal
from typing import Any

import pytest
from tests.cli.program import Program

CALLS = ["whoami", "ask", "get", "page", "cycle"]
BRIEF = ("--seconds", "0.3", "--calls", "9", "--concurrent", "4")


@pytest.fixture
def measured(askd: Program) -> Any:
    """What a brief bench found."""
    return askd.json("bench", *BRIEF)


def test_a_bench_measures_every_call_one_at_a_time_and_several_at_once(measured: Any) -> None:
    rows = measured["measurements"]
    assert [(row["call"], row["concurrent"]) for row in rows] == [(call, n) for n in (1, 4) for call in CALLS]
    assert all(0 < row["calls"] <= 9 and row["per_second"] > 0 for row in rows)
    assert all(0 < row["median_ms"] <= row["p99_ms"] for row in rows)


def test_a_bench_compares_each_call_with_one_that_touches_no_ask(measured: Any) -> None:
    for row in measured["measurements"]:
        floor = next(
            other["per_second"]
            for other in measured["measurements"]
            if other["call"] == "whoami" and other["concurrent"] == row["concurrent"]
        )
        assert row["ratio"] == pytest.approx(row["per_second"] / floor)


def test_a_bench_works_in_a_session_of_its_own_and_leaves_nothing_pending(askd: Program) -> None:
    other = askd.text("ask", "s", "x").strip()
    measured = askd.json("bench", *BRIEF)
    assert measured["left_pending"] == 0
    assert [ask["id"] for ask in askd.json("list", "--status", "pending")] == [other]
    assert {ask["sessionId"] for ask in askd.json("list")} == {"s", measured["session"]}


def test_an_interrupted_bench_leaves_nothing_pending(askd: Program) -> None:
    with askd.started("bench", "--seconds", "60") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("measuring in session bench-")
        process.send_signal(signal.SIGINT)
        assert process.wait() == 130
    assert askd.json("list")
    assert askd.json("list", "--status", "pending") == []


def test_a_credential_that_may_not_answer_measures_all_but_the_cycle(askd: Program) -> None:
    workspace = askd.settings["ASKD_WORKSPACE"]
    secret = askd.json("keys", "create", "k", "--grant", f"asker@{workspace}")["secret"]
    asker = Program(askd.settings | {"ASKD_KEY": secret})
    measured = asker.json("bench", *BRIEF)
    assert {row["call"] for row in measured["measurements"]} == set(CALLS) - {"cycle"}
    assert "answerer" in measured["refused"]


def test_people_are_shown_a_table_and_the_session(askd: Program) -> None:
    done = askd.run("bench", *BRIEF)
    assert done.code == 0, done.errors
    header, *rows = done.output.splitlines()
    assert header.split() == ["call", "at", "once", "calls", "calls/s", "median", "p99", "ratio"]
    assert [row.split()[0] for row in rows] == CALLS * 2
    assert askd.settings["ASKD_WORKSPACE"] in done.errors
