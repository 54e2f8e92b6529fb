"""ConsultAsk: who may, what is checked in which order, and what it leaves alone (CONTRACT section 8)."""

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from tests.advisors.consulting import Advised, advised
from tests.advisors.provider_server import close, held, reply
from tests.advisors.wires import ADVICE, CHAT
from tests.clients import ANSWERED, Client, grant, refusal
from tests.conditions import eventually
from tests.questions import choice_question, chosen, text, text_question

from askd.server.interceptor import BOUNDS

advice = reply(CHAT.advice())


async def test_the_checks_come_in_the_contracts_order(tmp_path: Path) -> None:
    async with advised(tmp_path, advice, rate="1/day") as place:
        viewer = await place.admin.with_grants(grant("viewer", "w"))
        stranger = await place.admin.with_grants(grant("answerer", "w", "another session"))
        resolved, pending = await place.ask(), await place.ask()
        await place.admin.answer(resolved.id, chosen("a"))
        wrong: dict[str, Any] = {"provider_id": "x", "model_id": "x", "question_index": 1, "note": "x" * 8193}

        async def reason(ask_id: str, client: Client | None = None, **fields: Any) -> tuple[str, tuple[str, ...]]:
            refused = await place.refused(place.consult(ask_id, client, **fields))
            return refused.reason, refused.fields

        assert await reason("que_x", **wrong) == ("not_found", ())
        assert await reason(resolved.id, stranger, **wrong) == ("not_found", ())
        assert await reason(resolved.id, viewer, **wrong) == ("permission_denied", ())
        assert await reason(resolved.id, **wrong) == ("ask_already_resolved", ())
        assert await reason(pending.id, **wrong) == ("provider_unknown", ("provider_id",))
        del wrong["provider_id"]
        assert await reason(pending.id, **wrong) == ("provider_unknown", ("model_id",))
        del wrong["model_id"]
        assert await reason(pending.id, **wrong) == ("invalid_arguments", ("question_index",))
        assert place.provider.requests == []
        await place.consult(pending.id)  # none of the above counted
        assert await reason(pending.id, **wrong) == ("invalid_arguments", ("question_index",))
        assert await reason(pending.id, note="x" * 8193) == ("invalid_arguments", ("note",))
        assert await reason(pending.id, system="é" * 4097) == ("invalid_arguments", ("system",))
        assert await reason(pending.id) == ("rate_limited", ())
        assert len(place.provider.requests) == 1


async def test_who_may_consult(tmp_path: Path) -> None:
    async with advised(tmp_path, advice) as place:
        ask = await place.ask()
        for role in ("answerer", "admin"):
            await place.consult(ask.id, await place.admin.with_grants(grant(role, "w", "s")))
        for role in ("asker", "viewer"):
            client = await place.admin.with_grants(grant(role, "w"))
            assert (await place.refused(place.consult(ask.id, client))).reason == "permission_denied"
        elsewhere = await place.admin.with_grants(grant("answerer", "v"))
        assert (await place.refused(place.consult(ask.id, elsewhere))).reason == "permission_denied"
        assert (await refusal(place.consult(ask.id, place.admin.other(None)))).reason == "unauthenticated"


async def test_the_winner_is_named_to_who_comes_late(tmp_path: Path) -> None:
    async with advised(tmp_path, advice) as place:
        ask = await place.ask()
        await place.admin.answer(ask.id, chosen("a"))
        refused = await place.refused(place.consult(ask.id))
        assert refused.status is grpc.StatusCode.FAILED_PRECONDITION
        assert refused.metadata["status"] == "answered"


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1])
async def test_there_is_no_such_question(tmp_path: Path, index: int) -> None:
    async with advised(tmp_path, advice) as place:
        ask = await place.ask(choice_question(), choice_question())
        refused = await place.refused(place.consult(ask.id, question_index=index))
        assert (refused.reason, refused.fields) == ("invalid_arguments", ("question_index",))


async def test_one_question_of_several(tmp_path: Path) -> None:
    async with advised(tmp_path, reply(CHAT.advice(recommendation=["Ada"]))) as place:
        ask = await place.ask(choice_question(), text_question("Which name?"))
        response = await place.consult(ask.id, question_index=1)
        assert list(response.recommendation) == ["Ada"]
        assert list(response.submissions) == [text("Ada")]
        assert "Which one?" not in CHAT.user(place.provider.requests[0])


async def test_a_server_without_providers_knows_none(tmp_path: Path) -> None:
    async with advised(tmp_path, advice) as place:
        ask = await place.ask()
        for provider in ("", "P", "openai"):
            refused = await place.refused(place.consult(ask.id, provider_id=provider))
            assert (refused.status, refused.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "provider_unknown")


async def test_too_often_is_told_how_long_to_wait(tmp_path: Path) -> None:
    async with advised(tmp_path, reply(CHAT.error("no"), 401), rate="2/minute") as place:
        ask = await place.ask()
        for _ in range(2):
            assert (await place.refused(place.consult(ask.id))).reason == "provider_unavailable"
        refused = await place.refused(place.consult(ask.id))
        assert (refused.status, refused.reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "rate_limited")
        assert refused.retry_after is not None
        assert 0 < refused.retry_after <= 60
        other = await place.admin.ask(choice_question("a", "b"), workspace_id="w/p")
        refused = await place.refused(place.consult(other.id, workspace_id="w/p"))
        assert refused.reason == "provider_unavailable", "each workspace has its own rate"


async def test_a_consultation_stores_nothing_and_tells_nobody(tmp_path: Path) -> None:
    async with advised(tmp_path, advice) as place:
        ask = await place.ask()
        async with place.admin.watch() as watcher:
            await watcher.until_synced()
            await place.consult(ask.id)
            assert await place.admin.get(ask.id) == ask
            after = await place.ask()
            (event,) = await watcher.events(1)
            assert (event.ask.id, event.revision) == (after.id, ask.created_revision + 1)


async def test_an_answer_that_overlaps_is_not_harmed(tmp_path: Path) -> None:
    released = asyncio.Event()
    async with advised(tmp_path, held(released, advice)) as place:
        ask = await place.ask()
        consultation = asyncio.create_task(place.consult(ask.id))
        await eventually(lambda: len(place.provider.requests) == 1)
        receipt = await place.admin.answer(ask.id, chosen("b"))
        released.set()
        response = await consultation
        assert list(response.recommendation) == ADVICE["recommendation"]
        assert (await place.admin.get(ask.id)).resolved_revision == receipt.resolved_revision
        late = await refusal(place.admin.answer(ask.id, *response.submissions, answer_id="late"))
        assert late.reason == "ask_already_resolved"


async def hanging(place: Advised, count: int = 1) -> list[asyncio.Task[object]]:
    """Consultations whose provider says nothing."""
    place.provider.steps = [place.provider.hang]
    ask = await place.ask()
    calls: list[asyncio.Task[object]] = [asyncio.create_task(place.consult(ask.id)) for _ in range(count)]
    await eventually(lambda: place.provider.hanging == count)
    return calls


async def test_a_callers_cancel_ends_the_call_to_the_provider(tmp_path: Path) -> None:
    async with advised(tmp_path, close) as place:
        (call,) = await hanging(place)
        call.cancel()
        await eventually(lambda: place.provider.abandoned == 1)
        await eventually(lambda: not place.served.server.interceptor.under_way["consult"])


async def test_draining_ends_consultations(tmp_path: Path) -> None:
    async with advised(tmp_path, close) as place:
        (call,) = await hanging(place)
        draining = asyncio.create_task(place.served.drain())
        refused = await refusal(call)
        assert (refused.reason, refused.message) == ("unavailable", "the server is draining")
        await draining
        await eventually(lambda: place.provider.abandoned == 1)


async def test_a_revoked_key_ends_its_consultations(tmp_path: Path) -> None:
    async with advised(tmp_path, close) as place:
        key = await place.admin.create_key(grant("answerer", "w"))
        place.provider.steps = [place.provider.hang]
        ask = await place.ask()
        call = asyncio.create_task(place.consult(ask.id, place.admin.other(key.secret)))
        await eventually(lambda: place.provider.hanging == 1)
        await place.admin.revoke_key(key.key.id)
        await place.served.server.authority.review()
        assert (await refusal(call)).reason == "unauthenticated"
        await eventually(lambda: place.provider.abandoned == 1)


async def test_asks_and_answers_go_on_beside_as_many_consultations_as_there_may_be(tmp_path: Path) -> None:
    async with advised(tmp_path, close) as place:
        calls = await hanging(place, BOUNDS["consult"])
        for _ in range(20):
            ask = await place.ask()
            assert (await place.admin.answer(ask.id, chosen("a"))).status == ANSWERED
        refused = await place.refused(place.consult((await place.ask()).id))
        assert (refused.reason, refused.message) == ("unavailable", "too many calls are under way")
        for call in calls:
            call.cancel()
        await eventually(lambda: place.provider.abandoned == len(calls))
