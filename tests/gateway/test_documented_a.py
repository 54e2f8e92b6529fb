"""What dialect A's documentation prints, as it prints it but for ids and times."""

import re

import pytest
from tests.gateway.places import Place, asks

import askd

pytestmark = pytest.mark.asyncio(loop_scope="session")

QUESTION = {
    "prompt": [{"type": "text", "text": "Publish this revision?"}],
    "type": "choice",
    "options": [
        {"id": "approve", "label": "Approve", "value": True},
        {"id": "decline", "label": "Decline", "value": False},
    ],
}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


async def test_the_documented_question_is_asked_answered_and_read(place: Place) -> None:
    created = await place.http.post(asks(), json={"question": QUESTION})
    assert created.status_code == 201
    ask = created.json()
    assert TIME.fullmatch(ask.pop("createdAt"))
    ask_id = ask.pop("id")
    assert ask == {"sessionId": "s", "turnId": "t", "status": "pending", "question": QUESTION}

    body = {"answer": {"selectedIds": ["approve"]}, "answerId": "first"}
    receipt = (await place.http.post(asks(ask_id, "answer"), json=body)).json()
    assert receipt["answer"] == {"selected": [{"id": "approve", "value": True}]}
    assert "question" not in receipt
    assert receipt["status"] == "answered"
    assert receipt["answeredByApiKeyId"] == place.key_id
    assert TIME.fullmatch(receipt["answeredAt"])

    read = (await place.http.get(asks(ask_id))).json()
    assert read == receipt | {"question": QUESTION}
    assert read.keys() == {
        "id", "sessionId", "turnId", "status", "question", "answer", "createdAt", "answeredAt", "answeredByApiKeyId",
    }  # fmt: skip


async def test_the_list_is_a_page(place: Place) -> None:
    for _ in range(3):
        await place.http.post(asks(), json={"question": QUESTION})
    first = (await place.http.get(asks(), params={"limit": 2})).json()
    assert first.keys() == {"items", "nextCursor"}
    second = (await place.http.get(asks(), params={"limit": 2, "cursor": first["nextCursor"]})).json()
    assert second.keys() == {"items"}
    assert [len(first["items"]), len(second["items"])] == [2, 1]


async def test_a_string_prompt_is_one_text_part(place: Place) -> None:
    created = await place.http.post(asks(), json={"question": {"prompt": "Which name?", "type": "text"}})
    assert created.json()["question"] == {"prompt": [{"type": "text", "text": "Which name?"}], "type": "text"}


async def test_an_uncertain_response_is_retried_with_its_answer_id(place: Place) -> None:
    ask_id = (await place.http.post(asks(), json={"question": QUESTION})).json()["id"]
    body = {"answer": {"selectedIds": ["decline"]}, "answerId": "again"}
    first, second = [await place.http.post(asks(ask_id, "answer"), json=body) for _ in range(2)]
    assert first.status_code == second.status_code == 200
    assert first.json() == second.json()


async def test_an_invalid_submission_is_answer_invalid(place: Place) -> None:
    ask_id = (await place.http.post(asks(), json={"question": QUESTION})).json()["id"]
    body = {"answer": {"selectedIds": ["approve", "approve"]}, "answerId": "x"}
    refused = await place.http.post(asks(ask_id, "answer"), json=body)
    assert refused.status_code == 400
    assert refused.json()["error"]["code"] == "answer_invalid"


@pytest.mark.parametrize(
    ("question", "code"),
    [
        ({"prompt": "?"}, "invalid_arguments"),
        ({"prompt": [{"type": "image", "url": "x"}], "type": "text"}, "content_kind_unsupported"),
        ({"prompt": "?", "type": "text", "title": "x" * 257}, "content_limit_exceeded"),
        ({"prompt": "?", "type": "text", "multiple": True}, "invalid_arguments"),
    ],
)
async def test_the_codes_of_validation_are_those_of_asking(place: Place, question: object, code: str) -> None:
    with pytest.raises(askd.ContentError) as raised:
        askd.validate_question(question)
    assert raised.value.code == code
    refused = await place.http.post(asks(), json={"question": question})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, code)
