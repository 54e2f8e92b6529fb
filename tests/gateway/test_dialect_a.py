"""Dialect A beyond its documentation: several questions, waiting, paging, the order of checks, errors."""

import asyncio
import json
from typing import Any

import pytest
from tests.conditions import eventually
from tests.gateway.places import Place, asks
from tests.questions import choice_question, chosen, json_question, text, text_question

pytestmark = pytest.mark.asyncio(loop_scope="session")

JSON = {"content-type": "application/json"}


async def answer(place: Place, ask_id: str, **body: Any) -> tuple[int, Any]:
    response = await place.http.post(asks(ask_id, "answer"), json={"answerId": "a"} | body)
    return response.status_code, response.json()


async def test_several_questions_are_read_and_answered_in_the_plural(place: Place) -> None:
    ask = await place.ask(text_question(), choice_question("x", allow_notes=True))
    read = (await place.http.get(asks(ask.id))).json()
    assert [question["type"] for question in read["questions"]] == ["text", "choice"]
    assert "question" not in read
    answers = ["Ada", {"selectedIds": ["x"], "notes": "n"}]
    status, receipt = await answer(place, ask.id, answers=answers)
    assert status == 200
    assert receipt["answers"] == ["Ada", {"selected": [{"id": "x", "value": "x"}], "notes": "n"}]
    assert not {"answer", "question", "questions"} & receipt.keys()


async def test_a_rejected_ask_reads_cancelled(place: Place) -> None:
    ask = await place.ask()
    rejected = await place.reject(ask.id)
    read = (await place.http.get(asks(ask.id))).json()
    assert read["status"] == "cancelled"
    assert read["cancelledAt"] == rejected.rejected_at.ToJsonString().replace("000Z", "Z")
    assert read.keys() == {"id", "sessionId", "turnId", "status", "question", "createdAt", "cancelledAt"}


async def test_a_wait_ends_with_the_resolution(place: Place) -> None:
    ask = await place.ask()
    waiting = asyncio.create_task(place.http.get(asks(ask.id), params={"wait": "60"}))
    await place.answer(ask.id, text("Ada"))
    assert (await waiting).json()["answer"] == "Ada"


async def test_a_wait_that_passes_shows_the_pending_ask(place: Place) -> None:
    ask = await place.ask()
    assert (await place.http.get(asks(ask.id), params={"wait": "1"})).json()["status"] == "pending"


async def test_a_wait_for_what_is_resolved_is_none(place: Place) -> None:
    ask = await place.ask()
    await place.answer(ask.id, text("Ada"))
    async with asyncio.timeout(5):
        assert (await place.http.get(asks(ask.id), params={"wait": "300"})).json()["status"] == "answered"


@pytest.mark.parametrize("query", ["wait=0", "wait=301", "wait=", "wait=1.5", "wait=-1", "wait=%2B1", "wait=1&wait=2"])
async def test_waits_that_are_none(place: Place, query: str) -> None:
    ask = await place.ask()
    response = await place.http.get(f"{asks(ask.id)}?{query}")
    assert (response.status_code, response.json()["error"]["details"]) == (400, {"field": "wait"})


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=", "limit"), ("limit=0", "limit"), ("limit=101", "limit"), ("limit=x", "limit"), ("limit=1e1", "limit"),
        ("limit=%D9%A1", "limit"), ("limit=+1", "limit"), ("limit=1&limit=1", "limit"), ("cursor=", "cursor"),
        ("cursor=nonsense", "cursor"), ("cursor=%FF", "query"), ("limit=00000000001", "limit"),
    ],
)  # fmt: skip
async def test_pages_that_are_none(place: Place, query: str, field: str) -> None:
    response = await place.http.get(f"{asks()}?{query}")
    assert (response.status_code, response.json()["error"]["details"]) == (400, {"field": field})


async def test_pages_hold_every_ask_of_the_turn_once(place: Place) -> None:
    made = [(await place.ask(text_question(str(number)))).id for number in range(7)]
    await place.ask(turn_id="other")
    await place.ask(session_id="other")
    await place.answer(made[3], text())
    seen, cursor = [], None
    while True:
        params = {"limit": "2"} | ({"cursor": cursor} if cursor else {})
        page = (await place.http.get(asks(), params=params)).json()
        seen += [item["id"] for item in page["items"]]
        if "nextCursor" not in page:
            break
        cursor = page["nextCursor"]
    assert seen == made


async def test_another_turns_ask_is_not_found(place: Place) -> None:
    ask = await place.ask()
    for url in (asks(ask.id, turn="other"), asks(ask.id, session="other"), asks("que_x"), asks("%2F")):
        for response in (
            await place.http.get(url),
            await place.http.get(url, params={"wait": "300"}),
            await place.http.post(f"{url}/answer", json={"answer": "x", "answerId": "a"}),
        ):
            assert response.status_code == 404
            assert response.json()["error"]["code"] == "not_found"
    assert (await place.get(ask.id)).status == ask.status


async def test_a_request_id_makes_asking_again_safe(place: Place) -> None:
    body = {"question": {"prompt": "?", "type": "text"}, "requestId": "r", "expiresIn": None}
    del body["expiresIn"]
    first, second = [await place.http.post(asks(), json=body) for _ in range(2)]
    assert first.json() == second.json()
    other = await place.http.post(asks(), json=body | {"question": {"prompt": "!", "type": "text"}})
    assert (other.status_code, other.json()["error"]["code"]) == (409, "request_id_conflict")
    assert other.json()["error"]["details"] == {"field": "requestId"}


QUESTION = {"prompt": "?", "type": "text"}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ([], "invalid_arguments", "body"),
        ({}, "invalid_arguments", "question"),
        ({"question": QUESTION, "extra": 1}, "invalid_arguments", "extra"),
        ({"question": "?"}, "invalid_arguments", "question"),
        ({"question": QUESTION, "requestId": 1}, "invalid_arguments", "requestId"),
        ({"question": QUESTION, "requestId": ""}, "invalid_arguments", "requestId"),
        ({"question": QUESTION, "requestId": "x" * 513}, "invalid_arguments", "requestId"),
        ({"question": QUESTION, "expiresIn": "1"}, "invalid_arguments", "expiresIn"),
        ({"question": QUESTION, "expiresIn": 1.5}, "invalid_arguments", "expiresIn"),
        ({"question": QUESTION, "expiresIn": True}, "invalid_arguments", "expiresIn"),
        ({"question": QUESTION, "expiresIn": 0}, "invalid_arguments", "expiresIn"),
        ({"question": QUESTION | {"title": " "}}, "invalid_arguments", "question.title"),
        ({"question": QUESTION | {"title": None}}, "invalid_arguments", "question.title"),
        ({"question": QUESTION | {"prompt": [{"type": "text"}]}}, "invalid_arguments", "question.prompt[0].text"),
        (
            {"question": {"prompt": "?", "type": "choice", "options": [{"id": "a", "label": "A"}]}},
            "invalid_arguments", "question.options[0].value",
        ),
        (
            {"question": {"prompt": "?", "type": "choice", "options": [{"id": "a", "label": "A" * 257, "value": 1}]}},
            "content_limit_exceeded", "question.options[0].label",
        ),
    ],
)  # fmt: skip
async def test_what_is_not_asked(place: Place, body: Any, code: str, field: str) -> None:
    response = await place.http.post(asks(), json=body)
    error = response.json()["error"]
    assert (response.status_code, error["code"], error["details"]["field"]) == (400, code, field)
    assert error["message"].startswith(f"{field}: ")
    assert (await place.http.get(asks())).json() == {"items": []}


async def test_a_value_beyond_20_levels_is_refused_by_its_path(place: Place) -> None:
    deep: Any = 0
    for _ in range(20):
        deep = [deep]
    question = {"prompt": [{"type": "json", "value": deep}], "type": "text"}
    created = await place.http.post(asks(), json={"question": question})
    assert created.json()["question"] == question
    question["prompt"] = [{"type": "json", "value": [deep]}]
    refused = await place.http.post(asks(), json={"question": question})
    assert refused.status_code == 400
    assert refused.json()["error"]["details"]["field"].startswith("question.prompt[0].value")


@pytest.mark.parametrize("count", [130_000, 400_000])
async def test_a_value_that_grows_beyond_a_message_is_over_its_limit(place: Place, count: int) -> None:
    """Numbers take six times their JSON as protobuf: a large array of them was answered as if the server were full."""
    question = {"prompt": [{"type": "json", "value": [1] * count}], "type": "text"}
    response = await place.http.post(asks(), content=json.dumps({"question": question}), headers=JSON)
    error = response.json()["error"]
    assert (response.status_code, error["code"]) == (400, "content_limit_exceeded")
    assert error["details"] == {"field": "question"}


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        ({}, "invalid_arguments", "answer"),
        ({"answer": "x", "answers": ["x"]}, "invalid_arguments", "answers"),
        ({"answer": "x", "answerId": None}, "invalid_arguments", "answerId"),
        ({"answer": "x", "answerId": ""}, "invalid_arguments", "answerId"),
        ({"answer": {"selectedIds": ["a"]}, "by": "me"}, "invalid_arguments", "by"),
        ({"answer": None}, "answer_invalid", "answer"),
        ({"answer": 1}, "answer_invalid", "answer"),
        ({"answer": "text"}, "answer_invalid", "answer"),
        ({"answer": {}}, "answer_invalid", "answer.selectedIds"),
        ({"answer": {"selectedIds": "a"}}, "answer_invalid", "answer.selectedIds"),
        ({"answer": {"selectedIds": [1]}}, "answer_invalid", "answer.selectedIds"),
        ({"answer": {"selectedIds": ["z"]}}, "answer_invalid", "answer.selectedIds"),
        ({"answer": {"selectedIds": ["a"], "custom": None}}, "answer_invalid", "answer.custom"),
        ({"answer": {"selectedIds": ["a"], "notes": "n"}}, "answer_invalid", "answer.notes"),
        ({"answer": {"selectedIds": ["a"], "extra": 1}}, "answer_invalid", "answer.extra"),
        ({"answers": [{"selectedIds": ["z"]}]}, "answer_invalid", "answers[0].selectedIds"),
        ({"answers": {}}, "answer_invalid", "answers"),
        ({"answers": []}, "answer_invalid", "answers"),
        ({"answers": [1, 2]}, "answer_invalid", "answers[0]"),
    ],
)
async def test_what_is_no_answer(place: Place, body: dict[str, Any], code: str, field: str) -> None:
    ask = await place.ask(choice_question())
    status, refused = await answer(place, ask.id, **body)
    assert (status, refused["error"]["code"]) == (400, code), refused
    assert refused["error"]["details"]["field"] == field
    assert await place.get(ask.id) == ask


async def test_the_checks_of_an_answer_come_in_order(place: Place) -> None:
    ask = await place.ask(choice_question())
    assert (await answer(place, "que_x", answer=1))[0] == 404
    status, refused = await answer(place, ask.id, answer=1)
    assert refused["error"]["code"] == "answer_invalid"
    assert (await answer(place, ask.id, answer={"selectedIds": ["a"]}))[0] == 200
    status, refused = await answer(place, ask.id, answer=1)
    assert (status, refused["error"]["code"]) == (409, "answer_id_conflict")
    status, refused = await answer(place, ask.id, answer=1, answerId="b")
    assert (status, refused["error"]["code"]) == (409, "ask_already_resolved")


async def test_a_loser_is_told_who_won(place: Place) -> None:
    ask = await place.ask(choice_question())
    won = await place.reject(ask.id)
    status, refused = await answer(place, ask.id, answer={"selectedIds": ["a"]})
    assert status == 409
    assert refused["error"]["details"] == {
        "status": "cancelled",
        "resolvedAt": (await place.http.get(asks(ask.id))).json()["cancelledAt"],
        "resolvedRevision": str(won.resolved_revision),
        "resolvedBy": f"key:{place.key_id}",
    }


async def test_any_unicode_comes_back_as_it_was(place: Place) -> None:
    value = "\u0000 \ufeff e\u0301 \U0001f600 \u2028"
    created = await place.http.post(asks(), json={"question": {"prompt": value, "type": "text"}})
    ask_id = created.json()["id"]
    _, receipt = await answer(place, ask_id, answer=value)
    assert receipt["answer"] == value
    assert (await place.get(ask_id)).questions[0].prompt[0].text == value


async def test_numbers_and_values_are_read_as_json_writes_them(place: Place) -> None:
    value = {"whole": 3, "part": 0.1, "list": [None, True, {}], "large": 2**53 - 1}
    ask = await place.ask(json_question(value))
    read = (await place.http.get(asks(ask.id))).text
    assert '"whole":3' in read
    assert '"large":9007199254740991' in read
    assert '"list":[null,true,{}]' in read


async def test_an_ask_made_here_belongs_to_the_credentials_workspace(place: Place) -> None:
    created = await place.http.post(asks(), json={"question": QUESTION})
    ask = await place.get(created.json()["id"])
    assert (ask.workspace_id, ask.session_id, ask.turn_id) == (place.workspace, "s", "t")


async def test_an_answer_seen_through_a_wait_by_many(place: Place) -> None:
    ask = await place.ask(choice_question())
    waits = [asyncio.create_task(place.http.get(asks(ask.id), params={"wait": "60"})) for _ in range(20)]
    await place.answer(ask.id, chosen("b"))
    assert {(await wait).json()["status"] for wait in waits} == {"answered"}
    await eventually(lambda: all(wait.done() for wait in waits))
