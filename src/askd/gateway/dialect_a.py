"""Dialect A: the asks of a turn (CONTRACT section 7). The workspace is the credential's own."""

from typing import Any, Literal, TypedDict

from google.protobuf.duration_pb2 import Duration

from askd.domain import limits
from askd.domain.answers import Submission
from askd.domain.canonical import Json
from askd.domain.errors import AskdError, Code, over_limit
from askd.domain.parsing import parse_question
from askd.domain.questions import Question
from askd.gateway import schemas_a as schemas
from askd.gateway.exchange import Exchange, encode_json
from askd.gateway.fields import Fields
from askd.gateway.refusals import RefusalError, invalid
from askd.gateway.routing import Dialect, Route
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.wire import content, json

_STATUS = {
    pb.ASK_STATUS_PENDING: "pending",
    pb.ASK_STATUS_ANSWERED: "answered",
    # This dialect knows no rejection.
    pb.ASK_STATUS_REJECTED: "cancelled",
    pb.ASK_STATUS_CANCELLED: "cancelled",
}
_TIMES: tuple[tuple[Literal["created_at", "answered_at", "rejected_at", "cancelled_at"], str], ...] = (
    ("created_at", "createdAt"),
    ("answered_at", "answeredAt"),
    ("rejected_at", "cancelledAt"),
    ("cancelled_at", "cancelledAt"),
)
# Seconds that a wait's call lasts longer than the wait.
_WAIT_MARGIN = 10.0


def ask_to_json(ask: pb.AskState) -> dict[str, Json]:
    """An AskState of this dialect; absent fields are left out."""
    fields: dict[str, Json] = {
        "id": ask.id,
        "sessionId": ask.session_id,
        "turnId": ask.turn_id,
        "status": _STATUS[ask.status],
    }
    _add(fields, "question", [json.question(question) for question in ask.questions])
    _add(fields, "answer", [json.answer(answer) for answer in ask.answers])
    if ask.payload_expired:
        fields["payloadExpired"] = True
    fields |= {name: json.time(getattr(ask, field)) for field, name in _TIMES if ask.HasField(field)}
    if ask.status == pb.ASK_STATUS_ANSWERED:
        fields |= _answered_by(ask)
    return fields


def _add(fields: dict[str, Json], name: str, values: list[Json]) -> None:
    """One value under its name, several under its plural."""
    if len(values) == 1:
        fields[name] = values[0]
    elif values:
        fields[f"{name}s"] = values


def _answered_by(ask: pb.AskState) -> dict[str, Json]:
    if ask.WhichOneof("resolved_by") == "resolved_by_user_id":
        return {"answeredByUserId": ask.resolved_by_user_id}
    return {"answeredByApiKeyId": ask.resolved_by_api_key_id}


# --- routes ---


async def list_asks(exchange: Exchange) -> None:
    """GET …/asks."""
    cursor = exchange.query("cursor")
    if cursor == "":
        raise invalid("cursor", "must not be empty")
    limit = exchange.whole_query("limit", 1, 100)
    request = rpc.ListAsksRequest(**_turn(exchange), limit=limit or 0, cursor=cursor or "")
    page = await exchange.upstream.call(exchange.upstream.asks.ListAsks, request, exchange)
    body: dict[str, Json] = {"items": [ask_to_json(ask) for ask in page.asks]}
    if page.next_cursor:
        body["nextCursor"] = page.next_cursor
    await exchange.reply(200, body)


async def get_ask(exchange: Exchange) -> None:
    """GET …/asks/{askId}, where asked for once the ask is resolved."""
    seconds = exchange.whole_query("wait", 1, 300)
    request = rpc.GetAskRequest(**_turn(exchange), ask_id=exchange.parameters["askId"])
    ask = (await exchange.upstream.call(exchange.upstream.asks.GetAsk, request, exchange)).ask
    if seconds is not None and ask.status == pb.ASK_STATUS_PENDING:
        ask = await _wait(ask, seconds, exchange)
    await exchange.reply(200, ask_to_json(ask))


async def _wait(ask: pb.AskState, seconds: int, exchange: Exchange) -> pb.AskState:
    request = rpc.WaitAskRequest(ask_id=ask.id, timeout=Duration(seconds=seconds))
    wait_ask = exchange.upstream.asks.WaitAsk
    return (await exchange.upstream.lasting_call(wait_ask, request, exchange, seconds + _WAIT_MARGIN)).ask


async def answer_ask(exchange: Exchange) -> None:
    """POST …/asks/{askId}/answer.

    What is wrong with the answers counts only once the server has found nothing else wrong: a submission of no kind
    stands for them until then (the order of checks in CONTRACT section 3).
    """
    fields = Fields(await exchange.json(), "", {"answer", "answers", "answerId"})
    ask_id = exchange.parameters["askId"]
    request = rpc.AnswerAskRequest(**_turn(exchange), ask_id=ask_id, answer_id=fields.text("answerId"))
    name, values = _answers(fields)
    wrong = None
    try:
        request.answers.extend(content.submission_to_proto(submission) for submission in _submissions(values))
    except AskdError as error:
        wrong = RefusalError(error.code, error.message, field=error.field)
        request.answers.add()
    try:
        response = await exchange.upstream.call(exchange.upstream.asks.AnswerAsk, request, exchange)
    except RefusalError as refusal:
        found = wrong if wrong and refusal.code == Code.ANSWER_INVALID else refusal
        raise _renamed(found, "answers[0]", name) if name == "answer" else found from None
    await exchange.reply(200, ask_to_json(response.ask))


def _answers(fields: Fields) -> tuple[str, Json]:
    """Which of the two fields the body has, and the submissions in it."""
    if "answers" not in fields:
        return "answer", [fields.required("answer")]
    if "answer" in fields:
        raise invalid("answers", "cannot stand beside answer")
    return "answers", fields.required("answers")


def _submissions(values: Json) -> list[Submission]:
    if not isinstance(values, list):
        raise AskdError(Code.ANSWER_INVALID, "answers: must be an array", field="answers")
    return [json.submission(value, index) for index, value in enumerate(values)]


async def create_ask(exchange: Exchange) -> None:
    """POST …/asks."""
    fields = Fields(await exchange.json(), "", {"question", "requestId", "expiresIn"})
    question = content.question_to_proto(_question(fields.required("question")))
    request = rpc.AskRequest(
        **_turn(exchange), questions=[question], request_id=_request_id(fields), expires_in=fields.span("expiresIn")
    )
    response = await exchange.upstream.call(exchange.upstream.asks.Ask, request, exchange)
    await exchange.reply(201, ask_to_json(response.ask))


def _question(value: Json) -> Question:
    """The question. One that is far too large is refused here: as protobuf it may be larger than a call can carry."""
    if (size := len(encode_json(value))) > 2 * limits.QUESTION:
        raise over_limit("question", size, limits.QUESTION, "bytes of JSON")
    return parse_question(value, "question")


def _request_id(fields: Fields) -> str:
    # Upstream an empty one would be none.
    if "requestId" in fields and not fields.text("requestId"):
        raise invalid("requestId", "must not be empty")
    return fields.optional_text("requestId")


class _Turn(TypedDict):
    session_id: str
    turn_id: str


def _turn(exchange: Exchange) -> _Turn:
    return {"session_id": exchange.parameters["sessionId"], "turn_id": exchange.parameters["turnId"]}


# --- errors ---

_FIELDS = {
    "session_id": "sessionId",
    "turn_id": "turnId",
    "ask_id": "askId",
    "answer_id": "answerId",
    "request_id": "requestId",
    "expires_in": "expiresIn",
    "questions": "question",
    "workspace_id": "workspace",
}


def shape(refusal: RefusalError, exchange: Exchange) -> tuple[int, dict[str, Any]]:
    """A refusal as `{"error": {"code", "message", "details"?}}`. Details hold the field that is wrong, and what an
    error tells beside its code, such as who resolved the ask."""
    refusal = _in_our_names(refusal)
    details: dict[str, Json] = {"field": refusal.field} if refusal.field else {}
    details |= {json.camel(name): value for name, value in refusal.metadata.items()}
    if details.get("status") == "rejected":
        details["status"] = "cancelled"
    error = {"code": refusal.code, "message": refusal.message} | ({"details": details} if details else {})
    return refusal.status, {"error": error}


def _in_our_names(refusal: RefusalError) -> RefusalError:
    """The same refusal with the field named as here: an ask made here has one question."""
    if refusal.field in _FIELDS:
        return refusal.at(_FIELDS[refusal.field])
    return _renamed(refusal, "questions[0]", "question")


def _renamed(refusal: RefusalError, old: str, new: str) -> RefusalError:
    return refusal.at(new + refusal.field[len(old) :]) if refusal.field.startswith(old) else refusal


_ASKS = "/v1/sessions/{sessionId}/turns/{turnId}/asks"

DIALECT = Dialect(
    prefixes=("v1",),
    shape=shape,
    routes=(
        Route(method="GET", path=_ASKS, handle=list_asks, description=schemas.LIST),
        Route(method="POST", path=_ASKS, handle=create_ask, description=schemas.CREATE),
        Route(method="GET", path=f"{_ASKS}/{{askId}}", handle=get_ask, description=schemas.GET),
        Route(method="POST", path=f"{_ASKS}/{{askId}}/answer", handle=answer_ask, description=schemas.ANSWER),
    ),
)
