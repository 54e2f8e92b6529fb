"""The paths of opencode clients in the shapes that their package declares."""

import re
from typing import Any

import pytest
from tests.gateway.places import Place, asked, asks, bearer, choice
from tests.gateway.streams import listening
from tests.processes import ServerProcess
from tests.questions import text_question

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def create(place: Place, **fields: Any) -> Any:
    return (await place.http.post(place.questions(), json=asked(choice("A", "B"), **fields))).json()


async def test_the_list_is_that_of_dialect_b(place: Place) -> None:
    request = await create(place, tool={"messageID": "m", "callID": "c"})
    assert (await place.http.get("/question")).json() == [request]


async def test_reply_and_reject_say_true(place: Place) -> None:
    first, second = await create(place), await create(place)
    replied = await place.http.post(f"/question/{first['id']}/reply", json={"answers": [["A"]]})
    rejected = await place.http.post(f"/question/{second['id']}/reject")
    assert [replied.content, rejected.content] == [b"true", b"true"]
    assert await place.pending() == []


async def test_what_is_unknown_or_resolved_is_not_found(place: Place) -> None:
    request = await create(place)
    await place.reject(request["id"])
    for request_id in (request["id"], "que_unknown"):
        for action, body in (("reply", {"answers": [["A"]]}), ("reject", None)):
            response = await place.http.post(f"/question/{request_id}/{action}", json=body)
            assert response.status_code == 404
            assert response.json() == {
                "_tag": "QuestionNotFoundError",
                "requestID": request_id,
                "message": f"Question request not found: {request_id}",
            }


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b'{"answers":[["Z"],["A"]]}', "Payload"),
        (b'{"answers":[[]]}', "Payload"),
        (b'{"answers":"A"}', "Payload"),
        (b'{"answers":[["A"]],"x":1}', "Payload"),
        (b"{", "Body"),
        (b"", "Body"),
    ],
)
async def test_bad_input(place: Place, body: bytes, kind: str) -> None:
    request = await create(place)
    headers = {"content-type": "application/json"}
    response = await place.http.post(f"/question/{request['id']}/reply", content=body, headers=headers)
    assert response.status_code == 400
    error = response.json()
    assert error["name"] == "BadRequest"
    assert error["data"].keys() == {"message", "kind"}
    assert error["data"]["kind"] == kind
    assert await place.pending() == [request]


@pytest.mark.parametrize(
    ("url", "headers", "kind"),
    [
        ("/question?workspace=%0A", {}, "Query"),
        ("/question?workspace=a&workspace=b", {}, "Query"),
        ("/question?workspace=%FF", {}, "Query"),
        ("/question", {"x-opencode-workspace": "x" * 129}, "Headers"),
        ("/event", {"last-event-id": "x"}, "Headers"),
        ("/event", {"last-event-id": "99999999999999999999"}, "Headers"),
        ("/event", {"last-event-id": "4611686018427387904"}, "Headers"),
        ("/question/%FF/reject", {}, "Params"),
    ],
)
async def test_the_kind_of_bad_input(
    askd: ServerProcess, place: Place, url: str, headers: dict[str, str], kind: str
) -> None:
    # The first key may work in any workspace, so that a bad name of one is all that is wrong.
    authorization = bearer(askd.credential)
    method = "POST" if url.endswith("reject") else "GET"
    response = await place.http.request(method, url, headers=authorization | headers)
    assert (response.status_code, response.json()["data"]["kind"]) == (400, kind), response.text


async def test_the_workspace_is_named_by_the_query_or_a_header(place: Place, askd: ServerProcess) -> None:
    request = await create(place)
    everywhere = bearer(askd.credential)
    by_query = await place.http.get(
        "/question", params={"workspace": place.workspace, "directory": "/ignored"}, headers=everywhere
    )
    latin = {b"x-opencode-workspace": place.workspace.encode("latin-1"), b"x-opencode-directory": b"/ignored"}
    utf8 = {b"x-opencode-workspace": place.workspace.encode()}
    by_header = [
        await place.http.get("/question", headers={b"authorization": everywhere["authorization"].encode()} | named)
        for named in (latin, utf8)
    ]
    assert [response.json() for response in (by_query, *by_header)] == [[request]] * 3
    assert (await place.http.get("/question", headers=everywhere)).json() != [request]


async def test_events(place: Place) -> None:
    before = await create(place)
    async with listening(place.http, "/event", directory="/ignored") as stream:
        connected = await stream.event()
        assert connected.name == "message"
        assert re.fullmatch("evt_[0-9a-f]+", connected.data.pop("id"))
        assert connected.data == {"type": "server.connected", "properties": {}}
        request = await create(place)
        await place.http.post(f"/question/{before['id']}/reply", json={"answers": [["mine"]]})
        await place.reject(request["id"])
        withdrawn = await place.ask(text_question())
        await place.cancel(withdrawn.id)
        events = await stream.events(5)
    assert {event.name for event in events} == {"message"}
    assert len({event.data["id"] for event in events}) == 5
    assert [(event.data["type"], event.data["properties"]) for event in events] == [
        ("question.asked", request),
        ("question.replied", {"sessionID": "s", "requestID": before["id"], "answers": [["mine"]]}),
        ("question.rejected", {"sessionID": "s", "requestID": request["id"]}),
        ("question.asked", (await as_request(place, withdrawn.id))),
        ("question.rejected", {"sessionID": "s", "requestID": withdrawn.id}),
    ]


async def as_request(place: Place, ask_id: str) -> Any:
    """The request that an ask which is no longer listed once was."""
    question = {"question": "Which name?", "header": "", "options": [], "multiple": False, "custom": True}
    assert (await place.http.get(asks(ask_id))).status_code == 200
    return {"id": ask_id, "sessionID": "s", "questions": [question]}


async def test_events_resume_after_the_last_id(place: Place) -> None:
    async with listening(place.http, "/event") as stream:
        await stream.event()
        first = await create(place)
        assert (await stream.event()).data["properties"]["id"] == first["id"]
    await place.reject(first["id"])
    second = await create(place)
    async with listening(place.http, "/event", after=stream.last_id) as stream:
        events = await stream.events(3)
    assert [event.data["type"] for event in events] == ["server.connected", "question.rejected", "question.asked"]
    assert events[2].data["properties"]["id"] == second["id"]


async def test_other_refusals(place: Place) -> None:
    unknown = await place.http.get("/question/x")
    assert (unknown.status_code, unknown.json()["name"]) == (404, "NotFoundError")
    elsewhere = await place.http.get("/question", params={"workspace": "elsewhere"})
    assert (elsewhere.status_code, elsewhere.json()["_tag"]) == (403, "ForbiddenError")
    stranger = await place.http.get("/question", headers={"authorization": "Bearer askd_nobody"})
    assert (stranger.status_code, stranger.json()["_tag"]) == (401, "UnauthorizedError")
    method = await place.http.put("/question")
    assert (method.status_code, method.json()["_tag"]) == (405, "InvalidRequestError")
