"""Ends of turns and sessions (CONTRACT section 4)."""

import asyncio
from pathlib import Path

import grpc
import pytest
from tests.clients import CANCELLED, PENDING, Client, connected, grant, refusal
from tests.lifecycle.times import end_session, end_turn, open_session, outcome_name
from tests.processes import serving
from tests.servers import Served

from askd.v1 import ask_pb2

REASON = ask_pb2.CancelReason


async def test_a_session_with_a_parent_cannot_ask(admin: Client) -> None:
    await open_session(admin, "child", parent="s")
    refused = await refusal(admin.ask(session_id="child"))
    assert (refused.status, refused.reason) == (grpc.StatusCode.FAILED_PRECONDITION, "session_not_root")


async def test_opening_again_is_fine_with_the_same_parent_and_no_other(admin: Client) -> None:
    await open_session(admin, "child", parent="s")
    await open_session(admin, "child", parent="s")
    for parent in ("other", ""):
        refused = await refusal(open_session(admin, "child", parent=parent))
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("parent_session_id",))


async def test_a_used_session_takes_no_parent(admin: Client) -> None:
    await admin.ask()
    assert (await refusal(open_session(admin, "s", parent="p"))).reason == "invalid_arguments"
    await open_session(admin, "s")


async def test_an_ended_session_cancels_its_asks_and_takes_no_more(admin: Client) -> None:
    asked = await admin.ask()
    other = await admin.ask(session_id="other")
    await end_session(admin)
    ended = await admin.get(asked.id)
    assert (ended.status, ended.cancel_reason) == (CANCELLED, REASON.CANCEL_REASON_SESSION_ENDED)
    assert ended.resolved_by_api_key_id == await admin.key_id()
    assert (await refusal(admin.ask())).reason == "session_ended"
    assert (await admin.get(other.id)).status == PENDING


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        ("INTERRUPTED", REASON.CANCEL_REASON_INTERRUPTED),
        ("CANCELLED", REASON.CANCEL_REASON_TURN_ENDED),
        ("FAILED", REASON.CANCEL_REASON_TURN_ENDED),
    ],
)
async def test_an_ended_turn_cancels_its_asks_with_a_reason(admin: Client, outcome: str, reason: int) -> None:
    asked = await admin.ask(turn_id="t")
    beside = await admin.ask()
    ended = await end_turn(admin, outcome)
    assert (outcome_name(ended), ended.unjoined_count) == (outcome, 0)
    assert (await admin.get(asked.id)).cancel_reason == reason
    assert (await refusal(admin.ask(turn_id="t"))).reason == "turn_ended"
    assert (await admin.get(beside.id)).status == PENDING
    assert (await admin.ask(turn_id="next")).status == PENDING


async def test_completing_a_turn_with_pending_asks_fails_it_and_names_them(admin: Client) -> None:
    joined = await admin.ask(turn_id="t")
    await admin.answer(joined.id)
    left = [(await admin.ask(turn_id="t")).id for _ in range(3)]
    first = await end_turn(admin, "COMPLETED")
    assert (outcome_name(first), list(first.unjoined_ask_ids), first.unjoined_count) == ("FAILED", left, 3)
    assert await end_turn(admin, "COMPLETED") == first  # a retry is told the same
    assert await end_turn(admin, "INTERRUPTED") == first  # the first outcome holds


async def test_completing_a_turn_whose_asks_are_resolved_completes_it(admin: Client) -> None:
    asked = await admin.ask(turn_id="t")
    await admin.reject(asked.id)
    ended = await end_turn(admin, "COMPLETED")
    assert (outcome_name(ended), ended.unjoined_count) == ("COMPLETED", 0)


async def test_ending_what_never_was_changes_no_ask(admin: Client) -> None:
    await admin.ask(session_id="other")
    await end_session(admin, "never")
    await end_session(admin, "never")
    assert outcome_name(await end_turn(admin, "COMPLETED", "never")) == "COMPLETED"
    async with admin.watch() as watcher:
        await watcher.until_synced()
        assert watcher.revision == 1


async def test_an_end_without_an_outcome_or_an_id_is_refused(admin: Client) -> None:
    assert (await refusal(end_turn(admin, "UNSPECIFIED"))).fields == ("outcome",)
    assert (await refusal(end_turn(admin, "COMPLETED", ""))).fields == ("turn_id",)
    assert (await refusal(end_session(admin, "\n"))).fields == ("session_id",)


async def test_only_an_asker_opens_and_ends(admin: Client) -> None:
    answerer = await admin.with_grants(grant("answerer", "w"))
    for call in (open_session(answerer), end_session(answerer), end_turn(answerer, "COMPLETED")):
        assert (await refusal(call)).reason == "permission_denied"


async def test_each_ask_of_an_ended_session_has_one_event(admin: Client) -> None:
    ids = [(await admin.ask()).id for _ in range(150)]  # more than a chunk
    async with admin.watch() as watcher:
        await watcher.until_synced()
        await end_session(admin)
        events = await watcher.events(len(ids))
    assert [event.ask.id for event in events] == ids
    assert [event.revision for event in events] == list(range(151, 301))


async def test_an_ask_that_races_with_its_sessions_end_is_never_left_pending(admin: Client) -> None:
    async def race(session: str) -> None:
        asks = [admin.ask(session_id=session) for _ in range(3)]
        done = await asyncio.gather(*asks, end_session(admin, session), return_exceptions=True)
        for error in done:
            if isinstance(error, grpc.aio.AioRpcError):
                assert error.code() is grpc.StatusCode.FAILED_PRECONDITION, error
            else:
                assert not isinstance(error, BaseException), error

    for start in range(0, 1000, 50):
        await asyncio.gather(*(race(f"s{number}") for number in range(start, start + 50)))
    assert await admin.list_all(statuses=[PENDING]) == []


async def test_an_end_that_a_crash_cut_short_is_finished_by_the_next_start(
    tmp_path: Path, database_settings: dict[str, str]
) -> None:
    with serving(tmp_path / "data", **database_settings) as process:
        async with connected(process.address, process.credential) as client:
            await asyncio.gather(*(client.ask() for _ in range(400)))
            ending = asyncio.create_task(end_session(client))
            async with client.watch(statuses=[CANCELLED], after_revision=400) as watcher:
                while not (await watcher.response()).events:
                    pass
                process.kill()  # the end is committed, and some of its asks are cancelled
            await asyncio.gather(ending, return_exceptions=True)
    with serving(tmp_path / "data", **database_settings) as process:
        async with connected(process.address, process.credential) as client:
            async with client.watch(after_revision=0) as watcher:
                while (watcher.revision or 0) < 800:
                    await watcher.response()
            assert await client.list_all(statuses=[PENDING]) == []


async def test_others_are_served_while_a_large_session_ends(server: Served) -> None:
    admin = server.admin
    await asyncio.gather(*(admin.ask() for _ in range(1500)))
    ending = asyncio.create_task(end_session(admin, limit=60))
    during = 0
    while not ending.done():
        await admin.ask(session_id="other")
        during += 1
    await ending
    assert during >= 10, "fewer asks than chunks: they waited for the whole end"
