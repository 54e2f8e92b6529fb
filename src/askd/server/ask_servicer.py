"""AskService: convert, call, convert."""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import aclosing
from typing import Any, TypeVar

import grpc

from askd.domain import limits
from askd.domain.asks import AnswerWith, AskFilter, RejectWith, Withdraw
from askd.domain.errors import AskdError, invalid
from askd.domain.principals import Role
from askd.domain.text import check_size
from askd.domain.validation import check_question
from askd.server import convert
from askd.server.interceptor import caller
from askd.server.states import States, receipt
from askd.service.asks import AskReference, Asks
from askd.service.consult import Consulting, ConsultRequest
from askd.service.cursors import make_cursor, read_cursor
from askd.service.hub import Batch
from askd.store.pauses import Pace
from askd.store.queries import Page
from askd.v1 import ask_service_pb2 as pb
from askd.v1.ask_service_pb2_grpc import AskServiceServicer
from askd.wire.content import question_from_proto, submissions_from_proto

T = TypeVar("T")
Context = grpc.aio.ServicerContext[Any, Any]

#: Seconds before a call's deadline at which a wait returns what it has, so that the answer still arrives, and the part
#: of a long one: gRPC rounds deadlines up by as much as a hundredth on their way.
_MARGIN = 0.25
_ROUNDING = 0.02


class AskServicer(AskServiceServicer):
    """See AskService in protos/askd/v1/ask_service.proto for what each method does."""

    def __init__(self, asks: Asks, consulting: Consulting) -> None:
        self._asks = asks
        self._consulting = consulting
        self._states = States()

    # Responses with asks are serialized already; those of changes are, one after another, when their batch is done.

    async def Ask(self, request: pb.AskRequest, context: Context) -> Any:
        """Store an ask."""
        access = caller().enter(request.workspace_id)
        access.require(Role.ASKER, request.session_id)
        check_size(request.request_id, "request_id", limits.REQUEST_IDENTIFIER)
        return await self._asks.create(
            access, lambda: convert.draft(request), request.request_id or None, self._states.encode
        )

    async def WaitAsk(self, request: pb.WaitAskRequest, context: Context) -> Any:
        """Wait for an ask's resolution."""
        access = caller().enter(request.workspace_id)
        ask = await self._asks.wait(access, AskReference(ask_id=request.ask_id), _wait_seconds(request, context))
        return self._states.encode(ask)

    async def GetAsk(self, request: pb.GetAskRequest, context: Context) -> Any:
        """Get an ask."""
        return self._states.encode(await self._asks.get(caller().enter(request.workspace_id), _reference(request)))

    async def ListAsks(self, request: pb.ListAsksRequest, context: Context) -> Any:
        """List a page of asks."""
        access = caller().enter(request.workspace_id)
        query = convert.ask_filter(access.workspace_id, request.session_id, request.turn_id, request.statuses)
        after = read_cursor(query, request.cursor) if request.cursor else 0
        page = await self._asks.page(access, query, after, _limit(request.limit))
        if query not in page.encoded:
            page.encoded[query] = await self._encode_page(query, page)
        return page.encoded[query]

    async def _encode_page(self, query: AskFilter, page: Page) -> bytes:
        encoded = await _fitting(map(self._states.encode, page.asks))
        if page.more or len(encoded) < len(page.asks):
            cursor = make_cursor(query, page.asks[len(encoded) - 1].created_revision)
            encoded.append(pb.ListAsksResponse(next_cursor=cursor).SerializeToString())
        return b"".join(encoded)

    async def AnswerAsk(self, request: pb.AnswerAskRequest, context: Context) -> Any:
        """Answer an ask."""
        access = caller().enter(request.workspace_id)
        return await self._asks.resolve(access, _reference(request), lambda: _answer(request), receipt)

    async def RejectAsk(self, request: pb.RejectAskRequest, context: Context) -> Any:
        """Reject an ask."""
        access = caller().enter(request.workspace_id)
        reference = AskReference(ask_id=request.ask_id)
        return await self._asks.resolve(access, reference, lambda: _rejection(request), self._states.encode)

    async def CancelAsk(self, request: pb.CancelAskRequest, context: Context) -> Any:
        """Cancel an ask."""
        access = caller().enter(request.workspace_id)
        return await self._asks.resolve(access, AskReference(ask_id=request.ask_id), Withdraw, self._states.encode)

    async def ConsultAsk(self, request: pb.ConsultAskRequest, context: Context) -> pb.ConsultAskResponse:
        """Ask a model how to answer an ask."""
        access = caller().enter(request.workspace_id)
        wanted = ConsultRequest(
            ask_id=request.ask_id,
            provider_id=request.provider_id,
            model_id=request.model_id,
            question_index=request.question_index if request.HasField("question_index") else None,
            note=request.note,
            system=request.system,
        )
        return convert.advice_to_proto(*await self._consulting.consult(access, wanted))

    async def WatchAsks(self, request: pb.WatchAsksRequest, context: Context) -> AsyncIterator[Any]:
        """Watch asks. Yields responses that are serialized already."""
        access = caller().enter(request.workspace_id)
        query = convert.ask_filter(access.workspace_id, request.session_id, request.turn_id, request.statuses)
        after = request.after_revision if request.HasField("after_revision") else None
        async with aclosing(self._asks.watch(access, query, after)) as batches:
            async for batch in batches:
                yield _encode(batch)

    async def ValidateQuestion(
        self, request: pb.ValidateQuestionRequest, context: Context
    ) -> pb.ValidateQuestionResponse:
        """Validate a question."""
        check_question(question_from_proto(request.question, "question"))
        return pb.ValidateQuestionResponse()


def _answer(request: pb.AnswerAskRequest) -> AnswerWith:
    return AnswerWith(
        answer_id=_or_error(lambda: _answer_id(request.answer_id)),
        submissions=_or_error(lambda: submissions_from_proto(request.answers)),
    )


def _rejection(request: pb.RejectAskRequest) -> RejectWith:
    return RejectWith(reason=_or_error(lambda: check_size(request.reason, "reason", limits.REASON)) or None)


def _reference(request: pb.GetAskRequest | pb.AnswerAskRequest) -> AskReference:
    return AskReference(ask_id=request.ask_id, session_id=request.session_id, turn_id=request.turn_id)


def _or_error(parse: Callable[[], T]) -> T | AskdError:
    """What a function returns or refuses: the ask's existence is looked at before its arguments."""
    try:
        return parse()
    except AskdError as error:
        return error


def _answer_id(value: str) -> str:
    if not value:
        raise invalid("answer_id", "must not be empty")
    return check_size(value, "answer_id", limits.REQUEST_IDENTIFIER)


def _limit(value: int) -> int:
    if not 0 <= value <= limits.PAGE_ITEMS:
        raise invalid("limit", f"must be 1 to {limits.PAGE_ITEMS}, or 0 for {limits.DEFAULT_PAGE_ITEMS}")
    return value or limits.DEFAULT_PAGE_ITEMS


def _wait_seconds(request: pb.WaitAskRequest, context: Context) -> float | None:
    remaining = context.time_remaining()
    spans = []
    if remaining is not None:
        spans.append(max(0.0, remaining - max(min(_MARGIN, remaining / 4), remaining * _ROUNDING)))
    if request.HasField("timeout"):
        spans.append(convert.microseconds(request.timeout, "timeout") / convert.MICROSECONDS)
    return min(spans, default=None)


async def _fitting(encoded: Iterable[bytes]) -> list[bytes]:
    """The first asks that fit a page, at least one. What the store bounds is their JSON, which protobuf can exceed."""
    total = limits.KIB  # the cursor
    fitting: list[bytes] = []
    pace = Pace()
    for each in encoded:
        await pace.pause()
        total += len(each)
        if total > limits.PAGE and fitting:
            break
        fitting.append(each)
    return fitting


def _encode(batch: Batch) -> bytes:
    if batch.encoded is None:
        end = pb.WatchAsksResponse(revision=batch.revision, synced=batch.synced).SerializeToString()
        batch.encoded = b"".join([*(event.encoded for event in batch.events), end])
    return batch.encoded
