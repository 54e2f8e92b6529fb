"""Opening and ending sessions and turns through the client, with a real server (CONTRACT section 4)."""

import pytest
from tests.client.test_requests import code_of

from askd.client import AsyncClient
from askd.v1 import ask_pb2 as pb
from askd.v1 import session_service_pb2 as sessions


async def test_a_session_of_a_parent_cannot_ask(client: AsyncClient) -> None:
    await client.open_session("child", parent="s")
    await client.open_session("child", parent="s")
    assert await code_of(client.ask("x", session="child")) == "session_not_root"
    await client.open_session("s")
    await client.ask("x", session="s")
    assert await code_of(client.open_session("s", parent="other")) == "invalid_arguments"


async def test_an_ended_session_has_no_pending_asks_and_takes_none(client: AsyncClient) -> None:
    ask = await client.ask("x", session="s")
    await client.end_session("s")
    await client.end_session("s")
    assert (await client.get(ask.id)).cancel_reason == pb.CANCEL_REASON_SESSION_ENDED
    assert await code_of(client.ask("x", session="s")) == "session_ended"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("interrupted", pb.CANCEL_REASON_INTERRUPTED),
        ("cancelled", pb.CANCEL_REASON_TURN_ENDED),
        ("failed", pb.CANCEL_REASON_TURN_ENDED),
    ],
)
async def test_a_turn_ends_with_its_first_outcome(
    client: AsyncClient, word: str, reason: pb.CancelReason.ValueType
) -> None:
    ask = await client.ask("x", session="s", turn="t")
    ended = await client.end_turn("s", "t", word)
    assert ended == await client.end_turn("s", "t", "completed")
    assert (sessions.TurnOutcome.Name(ended.outcome), ended.unjoined_count) == (f"TURN_OUTCOME_{word.upper()}", 0)
    assert (await client.get(ask.id)).cancel_reason == reason
    assert await code_of(client.ask("x", session="s", turn="t")) == "turn_ended"


async def test_a_turn_completed_while_asks_are_pending_has_failed(client: AsyncClient) -> None:
    asks = [await client.ask("x", session="s", turn="t") for _ in range(2)]
    for _ in range(2):
        ended = await client.end_turn("s", "t", "completed")
        assert ended.outcome == sessions.TURN_OUTCOME_FAILED
        assert list(ended.unjoined_ask_ids) == [ask.id for ask in asks]
        assert ended.unjoined_count == 2


async def test_an_outcome_that_is_none_is_refused(client: AsyncClient) -> None:
    for word in ("unspecified", "", "done"):
        assert await code_of(client.end_turn("s", "t", word)) == "invalid_arguments"
