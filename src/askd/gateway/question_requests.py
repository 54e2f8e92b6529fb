"""What dialect B and opencode clients do alike with question requests; shapes and errors are each one's own."""

import uuid

from askd.domain.canonical import Json
from askd.domain.errors import AskdError, Code
from askd.gateway import translation
from askd.gateway.exchange import Exchange, encode_json, gathered
from askd.gateway.fields import Fields
from askd.gateway.refusals import RefusalError, invalid
from askd.v1 import ask_pb2 as pb
from askd.v1 import ask_service_pb2 as rpc

# Small at first, so that a long list begins to flow at once.
_FIRST_PAGE = 20
_PAGE = 100

COUNT_WRONG = "Number of answers does not match number of questions"


async def list_pending(exchange: Exchange, workspace_id: str) -> None:
    """Respond with the array of every pending request: page by page, never whole in memory.

    A later page that fails breaks the response off.
    """
    request = rpc.ListAsksRequest(workspace_id=workspace_id, statuses=[pb.ASK_STATUS_PENDING], limit=_FIRST_PAGE)
    page = await exchange.upstream.call(exchange.upstream.asks.ListAsks, request, exchange)
    await exchange.start_json()
    separator = b"["
    while True:
        requests = (encode_json(translation.request_to_json(ask)) for ask in page.asks)
        for piece in gathered(requests, b","):
            await exchange.send(separator + piece)
            separator = b","
        if not page.next_cursor:
            break
        request.cursor, request.limit = page.next_cursor, _PAGE
        page = await exchange.upstream.call(exchange.upstream.asks.ListAsks, request, exchange)
    await exchange.finish(b"]" if separator == b"," else b"[]")


async def reply(exchange: Exchange, workspace_id: str) -> None:
    """Answer a request with the arrays of labels in the body.

    What is wrong with the labels counts only once the server has found nothing else wrong: a submission of no kind
    stands for them until then (the order of checks in CONTRACT section 3).
    """
    fields = Fields(await exchange.json(), "", {"answers"})
    answers = fields.required("answers")
    ask = await get(exchange, workspace_id)
    request = rpc.AnswerAskRequest(workspace_id=workspace_id, ask_id=ask.id, answer_id=_answer_id(exchange))
    wrong = None
    try:
        request.answers.extend(_submissions(answers, ask))
    except AskdError as error:
        wrong = error
        request.answers.add()
    try:
        await exchange.upstream.call(exchange.upstream.asks.AnswerAsk, request, exchange)
    except RefusalError as refusal:
        raise wrong if wrong and refusal.code == Code.ANSWER_INVALID else refusal from None
    await exchange.reply(200, True)


def _submissions(answers: Json, ask: pb.AskState) -> list[pb.AnswerSubmission]:
    if not isinstance(answers, list):
        raise AskdError(Code.ANSWER_INVALID, "answers: must be an array of arrays of labels", field="answers")
    if len(answers) != len(ask.questions):
        raise AskdError(Code.ANSWER_INVALID, f"answers: {COUNT_WRONG}", field="answers")
    return translation.submissions(answers, ask.questions)


def _answer_id(exchange: Exchange) -> str:
    given = exchange.header(b"idempotency-key")
    return uuid.uuid4().hex if given is None else given


async def get(exchange: Exchange, workspace_id: str) -> pb.AskState:
    """The request that the path names."""
    request = rpc.GetAskRequest(workspace_id=workspace_id, ask_id=exchange.parameters["requestID"])
    return (await exchange.upstream.call(exchange.upstream.asks.GetAsk, request, exchange)).ask


async def reject(exchange: Exchange, workspace_id: str) -> None:
    """Reject a request. It takes no body; an empty object or null is none."""
    if await exchange.optional_json() not in ({}, None):
        raise invalid("body", "is not taken here")
    request = rpc.RejectAskRequest(workspace_id=workspace_id, ask_id=exchange.parameters["requestID"])
    await exchange.upstream.call(exchange.upstream.asks.RejectAsk, request, exchange)
    await exchange.reply(200, True)
