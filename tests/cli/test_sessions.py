"""`askd session` and `askd turn`, with a real server (CONTRACT section 4)."""

import pytest
from tests.cli.program import Program


def test_a_session_is_opened_and_ended(askd: Program) -> None:
    assert askd.json("session", "open", "s/ü") == {"sessionId": "s/ü"}
    assert askd.json("session", "open", "child", "--parent", "s/ü") == {"sessionId": "child", "parentSessionId": "s/ü"}
    assert askd.run("ask", "child", "x").errors.startswith("error: session_not_root: ")
    ask_id = askd.text("ask", "s/ü", "x").strip()
    assert askd.json("session", "end", "s/ü") == {"sessionId": "s/ü"}
    assert askd.json("get", ask_id)["cancelReason"] == "session_ended"
    assert askd.run("ask", "s/ü", "x").errors.startswith("error: session_ended: ")


def test_people_are_told_what_was_done_to_a_session(askd: Program) -> None:
    assert askd.text("session", "open", "s") == "opened  s\n"
    assert askd.text("session", "end", "s") == "ended  s\n"


def test_a_turn_that_leaves_asks_pending_has_failed(askd: Program) -> None:
    first, second = (askd.text("ask", "s", "x", "--turn", "t").strip() for _ in range(2))
    assert askd.text("turn", "end", "s", "t", "--outcome", "completed") == (
        f"failed\nunjoined  {first}\nunjoined  {second}\n"
    )
    # The first outcome holds, and is told again.
    assert askd.json("turn", "end", "s", "t", "--outcome", "interrupted") == {
        "sessionId": "s",
        "turnId": "t",
        "outcome": "failed",
        "unjoinedAskIds": [first, second],
        "unjoinedCount": 2,
    }
    assert askd.json("get", first)["cancelReason"] == "turn_ended"
    assert askd.run("ask", "s", "x", "--turn", "t").errors.startswith("error: turn_ended: ")


@pytest.mark.parametrize("outcome", ["completed", "interrupted", "cancelled", "failed"])
def test_a_turn_ends_as_it_is_told(askd: Program, outcome: str) -> None:
    assert askd.text("turn", "end", "s", "t", "--outcome", outcome) == f"{outcome}\n"
    assert askd.json("turn", "end", "s", "t", "--outcome", "completed")["outcome"] == outcome


def test_a_list_of_unjoined_asks_that_is_cut_says_so(askd: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    from askd.client import AsyncClient
    from askd.v1 import session_service_pb2 as pb

    async def end_turn(*_: object) -> pb.EndTurnResponse:
        return pb.EndTurnResponse(outcome=pb.TURN_OUTCOME_FAILED, unjoined_ask_ids=["que_1"], unjoined_count=1001)

    monkeypatch.setattr(AsyncClient, "end_turn", end_turn)
    assert askd.text("turn", "end", "s", "t", "--outcome", "completed") == (
        "failed\nunjoined  que_1\nunjoined  1000 more\n"
    )


def test_refusals_and_wrong_usage(askd: Program) -> None:
    askd.text("ask", "s", "x")
    assert askd.run("session", "open", "s", "--parent", "p").errors.startswith("error: invalid_arguments: ")
    assert askd.run("session", "end", " ").errors.startswith("error: invalid_arguments: ")
    for arguments in (["turn", "end", "s", "t"], ["turn", "end", "s", "t", "--outcome", "done"], ["session", "open"]):
        assert askd.run(*arguments).code == 2
