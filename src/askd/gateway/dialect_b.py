"""Dialect B: the questions of a workspace (CONTRACT section 7)."""

import re
from collections.abc import Iterator
from typing import Any

from askd.domain.errors import Code
from askd.gateway import question_requests, translation
from askd.gateway import schemas_b as schemas
from askd.gateway.events import event, last_event_id, stream
from askd.gateway.exchange import Exchange, encode_json
from askd.gateway.fields import Fields
from askd.gateway.refusals import RefusalError, invalid
from askd.gateway.routing import Dialect, Route
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc
from askd.wire.json import word

_QUESTIONS = "/api/v1/workspaces/{workspaceID}/questions"
_REQUEST = f"{_QUESTIONS}/{{requestID}}"
_CONSULT = f"{_REQUEST}/consult"
_TOOL = frozenset({"messageID", "callID"})
_LARGEST_INDEX = 2**31 - 1


# --- routes ---


async def list_questions(exchange: Exchange) -> None:
    """GET …/questions."""
    await question_requests.list_pending(exchange, _workspace(exchange))


async def ask_questions(exchange: Exchange) -> None:
    """POST …/questions."""
    fields = Fields(await exchange.json(), "", {"sessionID", "questions", "tool", "expiresIn"})
    request = rpc.AskRequest(
        workspace_id=_workspace(exchange),
        session_id=fields.text("sessionID"),
        questions=translation.questions_from_json(fields.array("questions")),
        tool=_tool(fields),
        expires_in=fields.span("expiresIn"),
    )
    response = await exchange.upstream.call(exchange.upstream.asks.Ask, request, exchange)
    await exchange.reply(201, translation.request_to_json(response.ask))


def _tool(fields: Fields) -> pb.ToolCall | None:
    if "tool" not in fields:
        return None
    tool = Fields(fields.required("tool"), "tool", _TOOL)
    return pb.ToolCall(message_id=tool.text("messageID"), call_id=tool.text("callID"))


async def reply(exchange: Exchange) -> None:
    """POST …/questions/{requestID}/reply."""
    await question_requests.reply(exchange, _workspace(exchange))


async def reject(exchange: Exchange) -> None:
    """POST …/questions/{requestID}/reject."""
    await question_requests.reject(exchange, _workspace(exchange))


async def consult(exchange: Exchange) -> None:
    """POST …/questions/{requestID}/consult."""
    fields = Fields(await exchange.json(), "", {"providerID", "modelID", "note", "questionIndex", "system"})
    request = rpc.ConsultAskRequest(
        workspace_id=_workspace(exchange),
        ask_id=exchange.parameters["requestID"],
        provider_id=fields.text("providerID"),
        model_id=fields.text("modelID"),
        note=fields.optional_text("note"),
        question_index=_index(fields),
        system=fields.optional_text("system"),
    )
    ask = await question_requests.get(exchange, request.workspace_id)
    upstream = exchange.upstream
    advice = await upstream.lasting_call(
        upstream.asks.ConsultAsk, request, exchange, timeout=upstream.settings.consult_timeout
    )
    await exchange.reply(200, _advice(advice, ask, request))


def _index(fields: Fields) -> int | None:
    index = fields.optional_whole("questionIndex")
    if index is not None and not 0 <= index <= _LARGEST_INDEX:
        raise invalid("questionIndex", "there is no such question")
    return index


def _advice(advice: rpc.ConsultAskResponse, ask: pb.AskState, request: rpc.ConsultAskRequest) -> dict[str, Any]:
    one = request.HasField("question_index")
    questions = [ask.questions[request.question_index]] if one else ask.questions
    usage = advice.usage
    return {
        "recommendation": list(advice.recommendation),
        "reasoning": advice.reasoning,
        "confidence": word(pb.Confidence.Name(advice.confidence), "CONFIDENCE_"),
        "usage": {
            "promptTokens": usage.prompt_tokens,
            "completionTokens": usage.completion_tokens,
            "totalTokens": usage.total_tokens,
        },
        "answers": translation.replies(advice.submissions, questions),
    }


async def events(exchange: Exchange) -> None:
    """GET …/questions/events."""
    request = rpc.WatchAsksRequest(workspace_id=_workspace(exchange), after_revision=last_event_id(exchange))
    await stream(request, exchange, _render, _render_end)


def _workspace(exchange: Exchange) -> str:
    return exchange.parameters["workspaceID"]


# --- events ---


def _render(response: rpc.WatchAsksResponse) -> Iterator[bytes]:
    for item in response.events:
        kind = word(pb.AskEventType.Name(item.type), "ASK_EVENT_TYPE_")
        data = {"type": kind, "revision": item.revision, "request": translation.request_to_json(item.ask)}
        if item.ask.answers:
            data["answers"] = translation.answers_to_json(item.ask)
        # Inside a snapshot there is nothing to resume after yet.
        resume = None if item.type == pb.ASK_EVENT_TYPE_PENDING else item.revision
        yield event(encode_json(data), kind, resume)
    if response.synced:
        data = {"type": "synced", "revision": response.revision}
        yield event(encode_json(data), "synced", response.revision)


def _render_end(refusal: RefusalError) -> bytes:
    # Not "error", which EventSource uses for its own troubles.
    return event(encode_json({"type": "end", "code": refusal.code, "message": refusal.message}), "end")


# --- errors ---

_UNKNOWN = {"providerID": "Invalid provider identifier", "modelID": "Invalid model identifier"}
_OUTPUT_INVALID = "Model returned invalid structured output: "


def shape(refusal: RefusalError, exchange: Exchange) -> tuple[int, dict[str, Any]]:
    """A refusal in the form that this dialect has for its status."""
    refusal = translation.in_our_names(refusal)
    match refusal.code:
        case Code.ASK_ALREADY_RESOLVED:
            return _errors(400, "requestID", "Question request is already resolved")
        case Code.PROVIDER_UNKNOWN if refusal.field in _UNKNOWN:
            return _errors(400, refusal.field, _UNKNOWN[refusal.field])
        case Code.NOT_FOUND:
            return 404, {"name": "NotFoundError", "data": {"message": _not_found(refusal, exchange)}}
        case Code.MODEL_OUTPUT_INVALID:
            return 502, {"error": _OUTPUT_INVALID + refusal.message.removeprefix(_OUTPUT_INVALID)}
        case Code.PROVIDER_UNAVAILABLE:
            return 502, {"error": refusal.message}
        case Code.RATE_LIMITED if exchange.route == _CONSULT:
            wait = round((refusal.retry_after or 1) * 1000)
            return 429, {"error": "Rate limit exceeded for consult endpoint", "retryAfterMs": wait}
    if refusal.status == 400:
        return _errors(400, *_field_and_message(refusal))
    return _errors(refusal.status, refusal.code, refusal.message)


def _field_and_message(refusal: RefusalError) -> tuple[str, str]:
    """The field of the body, and what is wrong with it, led by the path where that lies deeper."""
    field = re.split(r"[.\[]", refusal.field, maxsplit=1)[0] or refusal.code
    return field, refusal.reason if field == refusal.field else refusal.message


def _errors(status: int, name: str, message: str) -> tuple[int, dict[str, Any]]:
    return status, {"data": None, "errors": [{name: message}], "success": False}


def _not_found(refusal: RefusalError, exchange: Exchange) -> str:
    request_id = exchange.parameters.get("requestID")
    return f"Question request {request_id} not found" if request_id else refusal.message


DIALECT = Dialect(
    prefixes=("api",),
    shape=shape,
    routes=(
        Route(method="GET", path=_QUESTIONS, handle=list_questions, description=schemas.LIST),
        Route(method="POST", path=_QUESTIONS, handle=ask_questions, description=schemas.CREATE),
        Route(method="GET", path=f"{_QUESTIONS}/events", handle=events, description=schemas.EVENTS),
        Route(method="POST", path=f"{_REQUEST}/reply", handle=reply, description=schemas.REPLY),
        Route(method="POST", path=f"{_REQUEST}/reject", handle=reject, description=schemas.REJECT),
        Route(method="POST", path=_CONSULT, handle=consult, description=schemas.CONSULT),
    ),
)
