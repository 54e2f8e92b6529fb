"""Requests of a client to a real server."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from tests.client.restartable import RestartableServer

from askd import ContentError
from askd.client import AsyncClient, QuestionError, RequestError
from askd.client.content import QuestionLike
from askd.domain.answers import ChoiceSubmission
from askd.domain.questions import TextPart, TextQuestion
from askd.v1 import ask_pb2 as pb
from askd.v1 import key_service_pb2 as keys
from askd.wire import json

CHOICE: dict[str, object] = {
    "prompt": [{"type": "text", "text": "Which?"}],
    "type": "choice",
    "options": [{"id": "a", "label": "A", "value": 1}, {"id": "b", "label": "B", "value": None}],
    "allowCustom": True,
    "allowNotes": True,
}
TEXT: dict[str, object] = {"prompt": [{"type": "text", "text": "Why?"}], "type": "text"}


@pytest.mark.parametrize(
    "question",
    [
        "Why?",
        {"type": "text", "prompt": "Why?"},
        TextQuestion(prompt=(TextPart(text="Why?"),)),
        pb.Question(prompt=[pb.ContentPart(text="Why?")], text=pb.TextQuestion()),
    ],
    ids=["text", "json", "dataclass", "message"],
)
async def test_a_question_is_asked_in_any_of_its_forms(client: AsyncClient, question: QuestionLike) -> None:
    ask = await client.ask(question, session="s")
    assert json.ask(await client.get(ask.id))["questions"] == [TEXT]


async def test_questions_asked_together_keep_their_order_turn_and_tool(client: AsyncClient) -> None:
    tool = {"messageId": "m", "callId": "c"}
    ask = await client.ask([TEXT, CHOICE], session="s", turn="t", tool=tool)
    data = json.ask(await client.get(ask.id, session="s", turn="t"))
    assert (data["questions"], data["turnId"], data["tool"]) == ([TEXT, CHOICE], "t", tool)


async def test_asking_twice_makes_two_asks_and_a_repeated_request_id_one(client: AsyncClient) -> None:
    assert (await client.ask("x", session="s")).id != (await client.ask("x", session="s")).id
    first = await client.ask("x", session="s", request_id="r")
    assert await client.ask("x", session="s", request_id="r") == first
    with pytest.raises(RequestError) as refusal:
        await client.ask("y", session="s", request_id="r")
    assert refusal.value.code == "request_id_conflict"


@pytest.mark.parametrize(
    "submission",
    [
        {"selectedIds": ["b"], "notes": "n"},
        ChoiceSubmission(selected_ids=("b",), notes="n"),
        pb.AnswerSubmission(choice=pb.ChoiceSubmission(selected_ids=["b"], notes="n")),
    ],
    ids=["json", "dataclass", "message"],
)
async def test_an_answer_is_given_in_any_of_its_forms(client: AsyncClient, submission: Any) -> None:
    ask = await client.ask(CHOICE, session="s")
    receipt = await client.answer(ask.id, submission)
    assert not receipt.questions
    assert json.ask(await client.get(ask.id))["answers"] == [{"selected": [{"id": "b", "value": None}], "notes": "n"}]


async def test_an_answer_repeated_with_its_id_returns_the_first_receipt(client: AsyncClient) -> None:
    ask = await client.ask("x", session="s")
    receipt = await client.answer(ask.id, "yes", answer_id="i")
    assert await client.answer(ask.id, "yes", answer_id="i") == receipt
    with pytest.raises(RequestError) as conflict:
        await client.answer(ask.id, "no", answer_id="i")
    assert conflict.value.code == "answer_id_conflict"


async def test_a_loser_is_told_the_winner(client: AsyncClient) -> None:
    ask = await client.ask("x", session="s")
    rejected = await client.reject(ask.id, "because")
    with pytest.raises(RequestError) as loss:
        await client.answer(ask.id, "too late")
    assert rejected.reject_reason == "because"
    assert loss.value.code == "ask_already_resolved"
    assert loss.value.metadata["status"] == "rejected"
    assert loss.value.metadata["resolved_revision"] == str(rejected.resolved_revision)
    assert loss.value.metadata["resolved_by"] == f"key:{rejected.resolved_by_api_key_id}"


async def test_an_ask_is_cancelled_as_withdrawn(client: AsyncClient) -> None:
    ask = await client.ask("x", session="s")
    assert (await client.cancel(ask.id)).cancel_reason == pb.CANCEL_REASON_WITHDRAWN


async def test_waiting_ends_with_the_resolution(client: AsyncClient) -> None:
    ask = await client.ask("x", session="s")
    waiting = asyncio.create_task(client.wait(ask.id))
    await client.answer(ask.id, "yes")
    assert (await waiting).answers[0].text == "yes"
    assert (await client.wait(ask.id)).answers[0].text == "yes"


async def test_waiting_in_vain_returns_the_pending_ask(client: AsyncClient) -> None:
    ask = await client.ask("x", session="s")
    assert (await client.wait(ask.id, timeout=0.05)).status == pb.ASK_STATUS_PENDING
    assert (await client.wait(ask.id, timeout=0)).status == pb.ASK_STATUS_PENDING


async def test_a_list_goes_on_from_page_to_page(client: AsyncClient) -> None:
    asks = [await client.ask(f"{number}", session="s") for number in range(103)]
    assert [ask.id async for ask in client.list()] == [ask.id for ask in asks]
    assert [ask.id async for ask in client.list(limit=101)] == [ask.id for ask in asks[:101]]
    page = await client.list_page(limit=2)
    rest = await client.list_page(limit=1, cursor=page.next_cursor)
    assert [*page.asks, *rest.asks] == asks[:3]


async def test_a_list_holds_what_its_filters_say(client: AsyncClient) -> None:
    first, second = await client.ask("x", session="s", turn="t"), await client.ask("x", session="s")
    await client.ask("x", session="other")
    await client.cancel(second.id)
    assert [ask.id async for ask in client.list(session="s", turn="t")] == [first.id]
    assert [ask.id async for ask in client.list(session="s", statuses=["cancelled"])] == [second.id]


async def test_what_is_no_question_is_refused_before_it_is_sent() -> None:
    async with AsyncClient("127.0.0.1:1", "no server") as client:
        with pytest.raises(QuestionError) as refusal:
            await client.ask([TEXT, {**CHOICE, "options": []}], session="s")
    assert isinstance(refusal.value, ContentError)
    assert isinstance(refusal.value, RequestError)
    assert (refusal.value.code, refusal.value.field) == ("invalid_arguments", "questions[1].options")


@pytest.mark.parametrize(
    ("submissions", "field"),
    [
        ([3], "answers[0]"),
        ({"selectedIds": "a"}, "answers[0].selectedIds"),
        (["\ud800"], "answers[0]"),
        (["x", "y"], "answers"),
        ({"selectedIds": ["c"]}, "answers[0].selectedIds"),
    ],
)
async def test_what_is_no_answer_is_refused_here_or_there(client: AsyncClient, submissions: Any, field: str) -> None:
    ask = await client.ask(CHOICE, session="s")
    with pytest.raises(RequestError) as refusal:
        await client.answer(ask.id, submissions)
    assert (refusal.value.code, refusal.value.field) == ("answer_invalid", field)
    assert (await client.get(ask.id)).status == pb.ASK_STATUS_PENDING


async def test_arguments_that_protobuf_refuses_are_invalid(client: AsyncClient) -> None:
    for refused in (
        lambda: client.ask("x", session="\ud800"),
        lambda: client.list_page(limit=2**40),
        lambda: client.list_page(statuses=["open"]),
        lambda: client.ask("x", session="s", expires_in=float("nan")),
        lambda: client.ask("x", session="s", expires_in=1e300),
    ):
        with pytest.raises(RequestError) as refusal:
            await refused()
        assert refusal.value.code == "invalid_arguments"


async def test_the_server_names_the_field_that_is_wrong(client: AsyncClient) -> None:
    with pytest.raises(RequestError) as refusal:
        await client.ask("x", session=" ")
    assert (refusal.value.code, refusal.value.field) == ("invalid_arguments", "session_id")


async def test_a_question_is_validated_without_being_asked(client: AsyncClient) -> None:
    await client.validate(CHOICE)
    with pytest.raises(QuestionError) as refusal:
        await client.validate({**CHOICE, "title": " "})
    assert refusal.value.field == "question.title"
    assert [ask async for ask in client.list()] == []


async def test_a_key_does_what_its_grants_say_until_it_is_revoked(
    client: AsyncClient, shared_server: RestartableServer, workspace: str
) -> None:
    grant = keys.Grant(role=keys.ROLE_VIEWER, workspace_id=workspace)
    made = await client.create_key("reader", [grant])
    ask = await client.ask("x", session="s")
    async with AsyncClient(shared_server.address, made.secret) as reader:
        caller = await reader.who_am_i()
        assert (caller.principal, list(caller.grants)) == (f"key:{made.key.id}", [grant])
        assert (await reader.get(ask.id)).id == ask.id
        assert await code_of(reader.answer(ask.id, "x")) == "permission_denied"
        assert made.key in await client.list_keys()
        assert (await client.revoke_key(made.key.id)).HasField("revoked_at")
        assert await code_of(reader.get(ask.id)) == "unauthenticated"


async def code_of(call: Any) -> str:
    """The code of the refusal of a call."""
    with pytest.raises(RequestError) as refusal:
        await call
    return refusal.value.code


async def test_grants_are_given_listed_and_taken(
    client: AsyncClient, shared_server: RestartableServer, workspace: str
) -> None:
    made = await client.create_key("reader", [keys.Grant(role=keys.ROLE_VIEWER, workspace_id=workspace)])
    principal, grant = f"key:{made.key.id}", keys.Grant(role=keys.ROLE_ASKER, workspace_id=workspace, session_id="s")
    await client.grant_role(principal, grant)
    assert grant in await client.list_grants(principal)
    async with AsyncClient(shared_server.address, made.secret) as asker:
        assert (await asker.ask("x", session="s", expires_in=timedelta(hours=1))).HasField("expires_at")
        await client.revoke_role(principal, grant)
        assert await code_of(asker.ask("x", session="s")) == "permission_denied"
    assert grant not in await client.list_grants(principal)


async def test_refusals_carry_the_contracts_codes(shared_server: RestartableServer, client: AsyncClient) -> None:
    assert await code_of(client.get("que_none")) == "not_found"
    assert await code_of(client.revoke_key("key_none")) == "not_found"
    for key in ("", "askd_bad"):
        async with AsyncClient(shared_server.address, key) as stranger:
            assert await code_of(stranger.who_am_i()) == "unauthenticated"


def test_a_key_that_no_header_can_carry_is_refused() -> None:
    for key in ("two\nlines", "schlüssel"):
        with pytest.raises(ValueError, match="credential"):
            AsyncClient("127.0.0.1:1", key)
