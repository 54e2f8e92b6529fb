"""What dialect B's documentation prints, as it prints it but for ids and times."""

from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from tests.client.scripted_server import Script, failure, serving
from tests.gateway.places import Place, bearer, calling, choice, gateway_to, path
from tests.questions import choice_question

from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc

pytestmark = pytest.mark.asyncio(loop_scope="session")

AUTH = {
    "question": "Which authentication method should the new service use?",
    "header": "Auth method",
    "options": [
        {"label": "OAuth 2.0", "description": "Industry standard, supports delegated authorization"},
        {"label": "API Keys", "description": "Simple to implement, ideal for server-to-server"},
        {"label": "JWT tokens", "description": "Stateless, no session storage required"},
    ],
    "multiple": False,
    "custom": True,
}
STORES = choice("PostgreSQL", "Redis", "SQLite", multiple=True)
TOOL = {"messageID": "msg_8x7y6z5w4v3u2t1s0r9q8p7o", "callID": "call_3a4b5c6d7e8f9g0h1i2j3k4l"}
SESSION = "5f9e3c2a1b8d4f7e6a5b3c2d1e"
UNKNOWN = "que_a1b2c3d4e5f6g7h8i9j0k1l2"
CONSULT: dict[str, Any] = {
    "providerID": "anthropic",
    "modelID": "claude-sonnet-4-20250514",
    "note": "The project uses a microservices architecture with strict compliance requirements",
    "questionIndex": 0,
    "system": "You are advising on a software architecture decision. Be concise.",
}


async def asked(place: Place, *questions: dict[str, Any], **fields: Any) -> str:
    body = {"sessionID": SESSION, "questions": questions} | fields
    created = await place.http.post(place.questions(), json=body)
    assert created.status_code == 201, created.text
    request_id: str = created.json()["id"]
    return request_id


async def test_the_list(place: Place) -> None:
    request_id = await asked(place, AUTH, tool=TOOL)
    request = {"id": request_id, "sessionID": SESSION, "questions": [AUTH], "tool": TOOL}
    assert await place.pending() == [request]


async def test_reply(place: Place) -> None:
    request_id = await asked(place, AUTH, STORES)
    body = {"answers": [["OAuth 2.0"], ["PostgreSQL", "Redis"]]}
    replied = await place.http.post(place.questions(request_id, "reply"), json=body)
    assert (replied.status_code, replied.content) == (200, b"true")
    assert await place.pending() == []


async def test_reply_with_another_number_of_answers(place: Place) -> None:
    request_id = await asked(place, AUTH)
    body = {"answers": [["OAuth 2.0"], ["PostgreSQL", "Redis"]]}
    refused = await place.http.post(place.questions(request_id, "reply"), json=body)
    assert refused.status_code == 400
    assert refused.json() == {
        "data": None,
        "errors": [{"answers": "Number of answers does not match number of questions"}],
        "success": False,
    }


async def test_reject(place: Place) -> None:
    request_id = await asked(place, AUTH)
    rejected = await place.http.post(place.questions(request_id, "reject"))
    assert (rejected.status_code, rejected.content) == (200, b"true")
    assert await place.pending() == []


async def test_reject_what_is_resolved(place: Place) -> None:
    request_id = await asked(place, AUTH)
    await place.http.post(place.questions(request_id, "reject"))
    refused = await place.http.post(place.questions(request_id, "reject"))
    assert refused.status_code == 400
    assert refused.json() == {
        "data": None,
        "errors": [{"requestID": "Question request is already resolved"}],
        "success": False,
    }


@pytest.mark.parametrize(
    ("action", "body"), [("reply", {"answers": [["OAuth 2.0"]]}), ("reject", None), ("consult", CONSULT)]
)
async def test_what_does_not_exist(place: Place, action: str, body: Any) -> None:
    refused = await place.http.post(place.questions(UNKNOWN, action), json=body)
    assert refused.status_code == 404
    assert refused.json() == {
        "name": "NotFoundError",
        "data": {"message": f"Question request {UNKNOWN} not found"},
    }


# --- consulting, behind a server that says what the documentation prints ---

ASK = pb.AskState(id=UNKNOWN, session_id=SESSION, status=pb.ASK_STATUS_PENDING, questions=[choice_question("x")])
ADVICE = rpc.ConsultAskResponse(
    recommendation=["OAuth 2.0"],
    reasoning="OAuth 2.0 provides the strongest security guarantees.",
    confidence=pb.CONFIDENCE_HIGH,
    usage=pb.TokenUsage(prompt_tokens=312, completion_tokens=88, total_tokens=400),
    submissions=[pb.AnswerSubmission(choice=pb.ChoiceSubmission(selected_ids=["x"]))],
)


async def consulted(outcome: Any) -> tuple[int, Any, rpc.ConsultAskRequest]:
    """The response of a server whose ConsultAsk comes to `outcome`, and the request that it got."""
    consulting = Script(outcome)
    async with (
        serving(GetAsk=Script(rpc.GetAskResponse(ask=ASK)), ConsultAsk=consulting) as address,
        gateway_to(address) as gateway,
        calling(gateway, bearer("askd_x")) as http,
    ):
        url = path("api", "v1", "workspaces", "ws_5f9e3c2a1b8d4f7e6a5b3c2d", "questions", UNKNOWN, "consult")
        response = await http.post(url, json=CONSULT)
    return response.status_code, response.json(), consulting.requests[0]


async def test_consult() -> None:
    status, body, request = await consulted(ADVICE)
    assert status == 200
    assert body == {
        "recommendation": ["OAuth 2.0"],
        "reasoning": "OAuth 2.0 provides the strongest security guarantees.",
        "confidence": "high",
        "usage": {"promptTokens": 312, "completionTokens": 88, "totalTokens": 400},
        "answers": [["X"]],
    }
    assert request == rpc.ConsultAskRequest(
        workspace_id="ws_5f9e3c2a1b8d4f7e6a5b3c2d",
        ask_id=UNKNOWN,
        provider_id=CONSULT["providerID"],
        model_id=CONSULT["modelID"],
        note=CONSULT["note"],
        question_index=0,
        system=CONSULT["system"],
    )


async def test_consult_an_unknown_provider() -> None:
    outcome = failure(grpc.StatusCode.INVALID_ARGUMENT, "PROVIDER_UNKNOWN", field="provider_id")
    status, body, _ = await consulted(outcome)
    assert status == 400
    assert body == {"data": None, "errors": [{"providerID": "Invalid provider identifier"}], "success": False}


async def test_consult_a_model_that_answers_wrongly() -> None:
    outcome = failure(grpc.StatusCode.INTERNAL, "MODEL_OUTPUT_INVALID")
    outcome.message = "missing 'confidence' field"
    status, body, _ = await consulted(outcome)
    assert status == 502
    assert body == {"error": "Model returned invalid structured output: missing 'confidence' field"}


async def test_consult_too_often() -> None:
    outcome = failure(grpc.StatusCode.RESOURCE_EXHAUSTED, "RATE_LIMITED", retry=0.1)
    outcome.details[-1].Pack(RetryInfo(retry_delay=Duration(seconds=1, nanos=500_000_000)))
    status, body, _ = await consulted(outcome)
    assert status == 429
    assert body == {"error": "Rate limit exceeded for consult endpoint", "retryAfterMs": 1500}


async def test_consult_before_the_server_can() -> None:
    status, body, _ = await consulted(grpc.StatusCode.UNIMPLEMENTED)
    assert status == 501
    assert body["errors"] == [{"unimplemented": "the server does not offer this yet"}]
