"""Payload retention (CONTRACT section 4)."""

from pathlib import Path

from tests.clients import ANSWERED, PENDING, refusal
from tests.lifecycle.times import DAY, Clock
from tests.questions import choice_question, chosen, text, text_question
from tests.servers import served

SECRET = "the-launch-code-is-swordfish"


def _files_hold(folder: Path, needle: str) -> bool:
    return any(needle.encode() in file.read_bytes() for file in folder.glob("askd.db*"))


async def test_a_payload_is_erased_31_days_after_the_resolution_and_everything_else_stays(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock) as server:
        admin, sweeper = server.admin, server.server.sweeper
        asked = await admin.ask(text_question(SECRET), request_id="r", turn_id="t")
        rejected = await admin.ask()
        await admin.reject(rejected.id, reason=SECRET)
        left = await admin.ask(text_question("still waiting"))
        receipt = await admin.answer(asked.id, text(SECRET))
        assert _files_hold(tmp_path / "data", SECRET)
        clock.now += 29 * DAY
        await sweeper.run_once()
        assert (await admin.get(asked.id)).questions
        clock.now += 2 * DAY
        await sweeper.run_once()
        assert not _files_hold(tmp_path / "data", SECRET)

        erased = await admin.get(asked.id)
        assert (erased.status, erased.payload_expired) == (ANSWERED, True)
        assert not erased.questions
        assert not erased.answers
        for field in ("id", "turn_id", "created_at", "answered_at", "resolved_by_api_key_id", "resolved_revision"):
            assert getattr(erased, field) == getattr(receipt, field)
        assert not (await admin.get(rejected.id)).HasField("reject_reason")
        assert await admin.get(left.id) == left, "a pending ask lost its payload"


async def test_retries_lists_and_watches_of_erased_asks_work(tmp_path: Path, database_settings: dict[str, str]) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock, database_settings) as server:
        admin = server.admin
        asked = await admin.ask(text_question(SECRET), request_id="r")
        async with admin.watch() as early:
            await early.until_synced()
            await admin.answer(asked.id, text(SECRET), answer_id="a")
            await early.events(1)  # the ring holds the payload now
            clock.now += 31 * DAY
            await server.server.sweeper.run_once()
            async with admin.watch(after_revision=0) as late:
                events = await late.events(2)
        assert SECRET.encode() not in b"".join(event.SerializeToString() for event in events)
        assert [event.ask.payload_expired for event in events] == [True, True]
        assert events[0].ask.status == PENDING

        receipt = await admin.answer(asked.id, text("something else"), answer_id="a")  # the id alone decides
        assert receipt.payload_expired
        assert (await refusal(admin.answer(asked.id, answer_id="b"))).reason == "ask_already_resolved"
        assert (await admin.ask(text_question("other"), request_id="r")).id == asked.id
        assert [ask.id for ask in await admin.list_all()] == [asked.id]


async def test_a_retention_of_0_keeps_payloads(tmp_path: Path, database_settings: dict[str, str]) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock, database_settings, retention={"payload": "0"}) as server:
        asked = await server.admin.ask(choice_question("a"))
        await server.admin.answer(asked.id, chosen("a"))
        clock.now += 4000 * DAY
        await server.server.sweeper.run_once()
        assert (await server.admin.get(asked.id)).answers


async def test_every_payload_past_its_time_is_erased_however_many_there_are(tmp_path: Path) -> None:
    clock = Clock()
    async with served(tmp_path / "data", clock) as server:
        admin = server.admin
        for number in range(150):  # more than a chunk
            asked = await admin.ask(text_question(f"{SECRET}-{number}"))
            await admin.cancel(asked.id)
        clock.now += 31 * DAY
        await server.server.sweeper.run_once()
        assert all(ask.payload_expired for ask in await admin.list_all())
        assert not _files_hold(tmp_path / "data", SECRET)
