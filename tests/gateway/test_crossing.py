"""A question asked through any interface is listed, answered and rejected through each other one."""

from collections.abc import Awaitable, Callable

import pytest
from tests.gateway.places import Place, asked, asks, choice
from tests.questions import choice_question, chosen

from askd.v1 import ask_pb2 as pb

pytestmark = pytest.mark.asyncio(loop_scope="session")

# --- ways to ask: a single choice with the labels A and B ---


async def ask_grpc(place: Place) -> str:
    return (await place.ask(choice_question("a", "b"))).id


async def ask_a(place: Place) -> str:
    options = [{"id": name, "label": name.upper(), "value": name} for name in "ab"]
    body = {"question": {"prompt": "Which one?", "type": "choice", "options": options}}
    ask_id: str = (await place.http.post(asks(), json=body)).json()["id"]
    return ask_id


async def ask_b(place: Place) -> str:
    request_id: str = (await place.http.post(place.questions(), json=asked(choice("A", "B")))).json()["id"]
    return request_id


# --- ways to list what is pending ---


async def list_grpc(place: Place) -> list[str]:
    page = await place.grpc.page(workspace_id=place.workspace, statuses=[pb.ASK_STATUS_PENDING])
    return [ask.id for ask in page.asks]


async def list_a(place: Place) -> list[str]:
    items = (await place.http.get(asks())).json()["items"]
    return [item["id"] for item in items if item["status"] == "pending"]


async def list_b(place: Place) -> list[str]:
    return [request["id"] for request in await place.pending()]


async def list_opencode(place: Place) -> list[str]:
    return [request["id"] for request in (await place.http.get("/question")).json()]


# --- ways to answer with the second option ---


async def answer_grpc(place: Place, ask_id: str) -> None:
    option = (await place.get(ask_id)).questions[0].choice.options[1]
    await place.answer(ask_id, chosen(option.id))


async def answer_a(place: Place, ask_id: str) -> None:
    option = (await place.http.get(asks(ask_id))).json()["question"]["options"][1]
    body = {"answer": {"selectedIds": [option["id"]]}, "answerId": "a"}
    assert (await place.http.post(asks(ask_id, "answer"), json=body)).status_code == 200


async def answer_b(place: Place, ask_id: str) -> None:
    response = await place.http.post(place.questions(ask_id, "reply"), json={"answers": [["B"]]})
    assert response.status_code == 200


async def answer_opencode(place: Place, ask_id: str) -> None:
    response = await place.http.post(f"/question/{ask_id}/reply", json={"answers": [["B"]]})
    assert response.status_code == 200


# --- ways to reject ---


async def reject_grpc(place: Place, ask_id: str) -> None:
    await place.reject(ask_id)


async def reject_b(place: Place, ask_id: str) -> None:
    assert (await place.http.post(place.questions(ask_id, "reject"))).status_code == 200


async def reject_opencode(place: Place, ask_id: str) -> None:
    assert (await place.http.post(f"/question/{ask_id}/reject")).status_code == 200


Resolve = Callable[[Place, str], Awaitable[None]]
ASKING = [ask_grpc, ask_a, ask_b]
ANSWERING: list[Resolve] = [answer_grpc, answer_a, answer_b, answer_opencode]
REJECTING: list[Resolve] = [reject_grpc, reject_b, reject_opencode]


async def lists(place: Place, turn: bool) -> list[list[str]]:
    """What every interface lists as pending; dialect A shows only what belongs to a turn."""
    ways = [list_grpc, list_b, list_opencode, *([list_a] if turn else [])]
    return [await way(place) for way in ways]


@pytest.mark.parametrize("resolve", [*ANSWERING, *REJECTING])
@pytest.mark.parametrize("ask", ASKING)
async def test_crossing(place: Place, ask: Callable[[Place], Awaitable[str]], resolve: Resolve) -> None:
    ask_id = await ask(place)
    turn = ask is not ask_b
    assert all(listed == [ask_id] for listed in await lists(place, turn))
    if resolve is answer_a and not turn:
        # A request of dialect B is in no turn, which dialect A's paths all name.
        assert (await place.http.get(asks(ask_id))).status_code == 404
        return
    await resolve(place, ask_id)
    assert all(listed == [] for listed in await lists(place, turn))
    found = await place.get(ask_id)
    if resolve in REJECTING:
        assert found.status == pb.ASK_STATUS_REJECTED
    else:
        option = found.questions[0].choice.options[1]
        assert found.answers[0].choice.selected[0] == pb.Selection(id=option.id, value=option.value)
