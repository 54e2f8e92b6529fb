"""The paths of existing opencode clients, in the shapes of @opencode-ai/sdk (CONTRACT section 7)."""

import uuid
from collections.abc import Iterator
from typing import Any

from askd.domain.errors import Code
from askd.gateway import question_requests, translation
from askd.gateway import schemas_opencode as schemas
from askd.gateway.events import event, last_event_id, opened, stream
from askd.gateway.exchange import Exchange, encode_json
from askd.gateway.refusals import RefusalError
from askd.gateway.routing import Dialect, Route
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc

# --- routes ---


async def list_questions(exchange: Exchange) -> None:
    """GET /question."""
    await question_requests.list_pending(exchange, _workspace(exchange))


async def reply(exchange: Exchange) -> None:
    """POST /question/{requestID}/reply."""
    await question_requests.reply(exchange, _workspace(exchange))


async def reject(exchange: Exchange) -> None:
    """POST /question/{requestID}/reject."""
    await question_requests.reject(exchange, _workspace(exchange))


async def events(exchange: Exchange) -> None:
    """GET /event."""
    workspace = _workspace(exchange)
    after = last_event_id(exchange)
    if after is None:
        after = await _current_revision(workspace, exchange)
    request = rpc.WatchAsksRequest(workspace_id=workspace, after_revision=after)
    connected = _event(f"evt_{uuid.uuid4().hex}", "server.connected", {})
    await stream(request, exchange, _render, _render_end, connected)


async def _current_revision(workspace: str, exchange: Exchange) -> int:
    """The revision that the workspace has now: that of a snapshot of nothing."""
    request = rpc.WatchAsksRequest(workspace_id=workspace, statuses=[pb.ASK_STATUS_ANSWERED])
    with opened(request, exchange) as watch:
        while not (response := await watch.read()).synced:
            pass
    return response.revision


def _workspace(exchange: Exchange) -> str:
    """The workspace that the query or a header names; empty: the credential's own."""
    return exchange.query("workspace") or exchange.header(b"x-opencode-workspace") or ""


# --- events ---


def _render(response: rpc.WatchAsksResponse) -> Iterator[bytes]:
    for item in response.events:
        kind, properties = _change(item)
        yield _event(f"evt_{item.revision:026d}", kind, properties, item.revision)


def _change(item: pb.AskEvent) -> tuple[str, dict[str, Any]]:
    """The type and the properties of a change; whatever ends a request without an answer rejects it."""
    ask = item.ask
    subject: dict[str, Any] = {"sessionID": ask.session_id, "requestID": ask.id}
    match item.type:
        case pb.ASK_EVENT_TYPE_ASKED:
            return "question.asked", translation.request_to_json(ask)
        case pb.ASK_EVENT_TYPE_ANSWERED:
            return "question.replied", subject | {"answers": translation.answers_to_json(ask)}
    return "question.rejected", subject


def _event(identifier: str, kind: str, properties: dict[str, Any], revision: int | None = None) -> bytes:
    return event(encode_json({"id": identifier, "type": kind, "properties": properties}), revision=revision)


def _render_end(refusal: RefusalError) -> bytes:
    return _event(f"evt_{uuid.uuid4().hex}", "global.disposed", {"code": refusal.code, "message": refusal.message})


# --- errors ---

_TAGS = {
    401: "UnauthorizedError",
    403: "ForbiddenError",
    409: "ConflictError",
    503: "ServiceUnavailableError",
}
_HEADERS = frozenset({"Last-Event-ID", "Idempotency-Key"})


def shape(refusal: RefusalError, exchange: Exchange) -> tuple[int, dict[str, Any]]:
    """A refusal as the server of these clients puts it."""
    refusal = translation.in_our_names(refusal)
    request_id = exchange.parameters.get("requestID")
    if request_id is not None and refusal.code in (Code.NOT_FOUND, Code.ASK_ALREADY_RESOLVED):
        message = f"Question request not found: {request_id}"
        return 404, {"_tag": "QuestionNotFoundError", "requestID": request_id, "message": message}
    if refusal.status == 404:
        return 404, {"name": "NotFoundError", "data": {"message": refusal.message}}
    if refusal.status == 400:
        return 400, {"name": "BadRequest", "data": {"message": refusal.message, "kind": _kind(refusal, exchange)}}
    if refusal.status < 500 and refusal.status not in _TAGS:
        return refusal.status, {"_tag": "InvalidRequestError", "message": refusal.message, "kind": refusal.code}
    return refusal.status, {"_tag": _TAGS.get(refusal.status, "UnknownError"), "message": refusal.message}


def _kind(refusal: RefusalError, exchange: Exchange) -> str:
    """The part of the request that is wrong."""
    if refusal.field in _HEADERS:
        return "Headers"
    if refusal.field == "workspaceID":
        return "Query" if exchange.query("workspace") else "Headers"
    return {"path": "Params", "query": "Query", "workspace": "Query", "body": "Body"}.get(refusal.field, "Payload")


DIALECT = Dialect(
    prefixes=("question", "event"),
    shape=shape,
    routes=(
        Route(method="GET", path="/question", handle=list_questions, description=schemas.LIST),
        Route(method="POST", path="/question/{requestID}/reply", handle=reply, description=schemas.REPLY),
        Route(method="POST", path="/question/{requestID}/reject", handle=reject, description=schemas.REJECT),
        Route(method="GET", path="/event", handle=events, description=schemas.EVENTS),
    ),
)
