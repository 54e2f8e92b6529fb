"""Dialect B beyond its documentation: asking, reading back, the order of checks, errors, long lists."""

import asyncio
import json
from typing import Any

import pytest
from tests.gateway.places import Place, asked, choice
from tests.questions import choice_question, chosen, json_value, text, text_question

from askd.v1 import ask_pb2 as pb

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def create(place: Place, *questions: dict[str, Any], **fields: Any) -> Any:
    response = await place.http.post(place.questions(), json=asked(*questions, **fields))
    assert response.status_code == 201, response.text
    return response.json()


async def reply(place: Place, request_id: str, *answers: Any, **headers: str) -> tuple[int, Any]:
    url = place.questions(request_id, "reply")
    response = await place.http.post(url, json={"answers": answers}, headers=headers)
    return response.status_code, response.json()


def errors(*pairs: dict[str, str]) -> dict[str, Any]:
    return {"data": None, "errors": list(pairs), "success": False}


async def test_what_was_asked_reads_back_with_its_defaults_made_explicit(place: Place) -> None:
    request = await create(place, {"question": "Which?", "options": [{"label": "A"}]}, {"question": "Who?"})
    assert request == {
        "id": request["id"],
        "sessionID": "s",
        "questions": [
            {
                "question": "Which?",
                "header": "",
                "options": [{"label": "A", "description": ""}],
                "multiple": False,
                "custom": True,
            },
            {"question": "Who?", "header": "", "options": [], "multiple": False, "custom": True},
        ],
    }
    assert await place.pending() == [request]


async def test_every_session_is_listed_in_the_order_of_asking(place: Place) -> None:
    made = [(await place.ask(session_id=f"session {number % 3}")).id for number in range(7)]
    await place.answer(made.pop(2), text())
    await place.reject(made.pop(2))
    assert [request["id"] for request in await place.pending()] == made


async def test_a_custom_answer_and_an_answer_to_a_text_question(place: Place) -> None:
    request = await create(place, choice("A", "B"), {"question": "Who?"})
    assert await reply(place, request["id"], ["Neither"], ["Ada"]) == (200, True)
    answers = (await place.get(request["id"])).answers
    assert list(answers) == [pb.Answer(choice=pb.ChoiceAnswer(custom="Neither")), pb.Answer(text="Ada")]


async def test_several_labels_and_one_free_text(place: Place) -> None:
    request = await create(place, choice("A", "B", "C", multiple=True))
    assert await reply(place, request["id"], ["C", "mine", "A"]) == (200, True)
    answer = (await place.get(request["id"])).answers[0].choice
    assert ([selection.id for selection in answer.selected], answer.custom) == (["0", "2"], "mine")


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([["A"]], {"answers": "Number of answers does not match number of questions"}),
        ([], {"answers": "Number of answers does not match number of questions"}),
        ([["A"], []], {"answers": "answers[1]: at least one label is required"}),
        ([["A"], "x"], {"answers": "answers[1]: must be an array of labels"}),
        ([["A"], [1]], {"answers": "answers[1]: the label at 0 must be a string"}),
        ([["A"], None], {"answers": "answers[1]: must be an array of labels"}),
        ([["Z"], ["x"]], {"answers": 'answers[0]: "Z" is no option'}),
        ([["A"], ["x", "y"]], {"answers": "answers[1]: at most one answer may be in the person's own words"}),
    ],
)
async def test_what_is_no_reply(place: Place, answers: Any, error: dict[str, str]) -> None:
    request = await create(place, choice("A", "B", custom=False), {"question": "Who?"})
    assert await reply(place, request["id"], *answers) == (400, errors(error))
    assert await place.pending() == [request]


@pytest.mark.parametrize("body", [{}, {"answers": '[["A"]]'}, {"answers": {}}, {"answers": [["A"]], "x": 1}, [], None])
async def test_a_reply_of_another_form(place: Place, body: Any) -> None:
    request = await create(place, choice("A"))
    response = await place.http.post(place.questions(request["id"], "reply"), json=body)
    assert response.status_code == 400
    assert response.json().keys() == errors().keys()


async def test_two_selections_of_a_single_choice_are_refused_by_the_server(place: Place) -> None:
    request = await create(place, choice("A", "B"))
    status, body = await reply(place, request["id"], ["A", "B"])
    assert status == 400
    assert body["errors"][0]["answers"].startswith("answers[0]: ")


async def test_a_reply_to_what_is_resolved(place: Place) -> None:
    request = await create(place, choice("A", "B"))
    assert await reply(place, request["id"], ["A"]) == (200, True)
    resolved = (400, errors({"requestID": "Question request is already resolved"}))
    assert await reply(place, request["id"], ["A"]) == resolved
    # What is wrong with the labels comes last.
    assert await reply(place, request["id"], [1]) == resolved


async def test_an_idempotency_key_makes_a_reply_safe_to_repeat(place: Place) -> None:
    request = await create(place, choice("A", "B"))
    key = {"Idempotency-Key": "once"}
    for _ in range(3):
        assert await reply(place, request["id"], ["A"], **key) == (200, True)
    status, body = await reply(place, request["id"], ["B"], **key)
    assert (status, list(body["errors"][0])) == (409, ["answer_id_conflict"])


@pytest.mark.parametrize("key", ["", "x" * 513])
async def test_an_idempotency_key_that_is_none(place: Place, key: str) -> None:
    request = await create(place, choice("A"))
    status, body = await reply(place, request["id"], ["A"], **{"Idempotency-Key": key})
    assert (status, list(body["errors"][0])) == (400, ["Idempotency-Key"])


@pytest.mark.parametrize("body", [b"", b"{}", b"null"])
async def test_a_rejection_takes_no_body(place: Place, body: bytes) -> None:
    ask = await place.ask()
    headers = {"content-type": "application/json"} if body else {}
    response = await place.http.post(place.questions(ask.id, "reject"), content=body, headers=headers)
    assert (response.status_code, response.json()) == (200, True)
    assert (await place.get(ask.id)).status == pb.ASK_STATUS_REJECTED


@pytest.mark.parametrize("body", [b'{"reason":"x"}', b"[]", b"false", b"0", b'""', b"nul", b" "])
async def test_a_rejection_with_a_body(place: Place, body: bytes) -> None:
    ask = await place.ask()
    headers = {"content-type": "application/json"}
    response = await place.http.post(place.questions(ask.id, "reject"), content=body, headers=headers)
    assert (response.status_code, list(response.json()["errors"][0])) == (400, ["body"])
    assert await place.get(ask.id) == ask


QUESTION = {"question": "Who?"}


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"questions": [QUESTION]}, "sessionID", "is required"),
        ({"sessionID": 1, "questions": [QUESTION]}, "sessionID", "must be a string"),
        ({"sessionID": "", "questions": [QUESTION]}, "sessionID", None),
        ({"sessionID": "\n", "questions": [QUESTION]}, "sessionID", None),
        ({"sessionID": "s"}, "questions", "is required"),
        ({"sessionID": "s", "questions": QUESTION}, "questions", "must be an array"),
        ({"sessionID": "s", "questions": []}, "questions", None),
        ({"sessionID": "s", "questions": [QUESTION] * 33}, "questions", None),
        ({"sessionID": "s", "questions": ["?"]}, "questions", "questions[0]: must be an object"),
        ({"sessionID": "s", "questions": [{}]}, "questions", "questions[0].question: is required"),
        ({"sessionID": "s", "questions": [QUESTION | {"header": "x" * 257}]}, "questions",
         "questions[0].header: 257 bytes, the limit is 256"),
        ({"sessionID": "s", "questions": [QUESTION], "tool": {"messageID": "m"}}, "tool", "tool.callID: is required"),
        ({"sessionID": "s", "questions": [QUESTION], "tool": None}, "tool", "must be an object"),
        ({"sessionID": "s", "questions": [QUESTION], "turnID": "t"}, "turnID", "is no field of this object"),
        ({"sessionID": "s", "questions": [QUESTION], "expiresIn": "9"}, "expiresIn", "must be a whole number"),
        ({"sessionID": "s", "questions": [QUESTION], "expiresIn": 0}, "expiresIn", None),
    ],
)  # fmt: skip
async def test_what_is_not_asked(place: Place, body: Any, field: str, message: str | None) -> None:
    response = await place.http.post(place.questions(), json=body)
    assert response.status_code == 400
    [error] = response.json()["errors"]
    assert list(error) == [field]
    assert message is None or error[field] == message
    assert await place.pending() == []


async def test_labels_that_repeat_are_told_apart_by_ids(place: Place) -> None:
    ask = await place.ask(
        pb.Question(
            choice=pb.ChoiceQuestion(
                options=[pb.ChoiceOption(id=name, label="Same", value=json_value(name)) for name in ("x", "y")]
            )
        )
    )
    status, body = await reply(place, ask.id, ["Same"])
    assert status == 400
    assert body["errors"] == [{"answers": 'answers[0]: several options are called "Same"; name the option by its id'}]
    assert await reply(place, ask.id, ["y"]) == (200, True)
    assert (await place.get(ask.id)).answers[0].choice.selected[0].id == "y"


async def test_two_replies_race_for_one_request(place: Place) -> None:
    request = await create(place, choice("A", "B"))
    outcomes = await asyncio.gather(*(reply(place, request["id"], ["A"]) for _ in range(8)))
    assert sorted(status for status, _ in outcomes) == [200] + [400] * 7


async def test_a_list_of_several_pages_is_one_array(place: Place) -> None:
    large = text_question("x" * 20_000)
    made = [(await place.ask(large, turn_id=str(number))).id for number in range(250)]
    async with place.http.stream("GET", place.questions()) as response:
        assert "content-length" not in response.headers
        pieces = [piece async for piece in response.aiter_raw()]
    assert len(pieces) > 50
    assert [request["id"] for request in json.loads(b"".join(pieces))] == made


async def test_an_empty_list(place: Place) -> None:
    response = await place.http.get(place.questions())
    assert (response.headers["content-type"], response.content) == ("application/json", b"[]")


async def test_a_reply_with_notes_made_elsewhere_keeps_its_labels(place: Place) -> None:
    ask = await place.ask(choice_question(allow_notes=True))
    await place.answer(ask.id, chosen("a", notes="n"))
    assert await place.pending() == []
