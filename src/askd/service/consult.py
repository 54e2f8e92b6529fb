"""Consulting a model on a pending ask (CONTRACT section 8). Nothing is stored or announced."""

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol

from askd.domain import limits
from askd.domain.advice import Advice, Consultation, ModelReply, TokenUsage, provider_unavailable, read_advice
from askd.domain.asks import Ask, AskStatus, already_resolved
from askd.domain.errors import AskdError, Code, invalid
from askd.domain.principals import Access, Role
from askd.domain.questions import Question
from askd.domain.text import check_size
from askd.domain.values import value
from askd.service.asks import AskReference, Asks
from askd.service.streams import Streams

log = logging.getLogger(__name__)

#: How often a model is asked until its output can be used. Each time costs tokens.
ATTEMPTS = 2


class Advisor(Protocol):
    """A provider of models."""

    @property
    def models(self) -> Collection[str]:
        """The ids of the models that may be consulted."""
        ...

    @property
    def timeout(self) -> float:
        """Seconds that a consultation may take."""
        ...

    async def open(self) -> None:
        """Make ready for the first call, which may take long. Raises AskdError (provider_unavailable)."""
        ...

    async def ask(self, model: str, consultation: Consultation, deadline: float) -> ModelReply:
        """What a model says, until a time of the event loop after which the caller waits no longer. Raises AskdError
        (provider_unavailable, model_output_invalid)."""
        ...

    async def close(self) -> None:
        """Let go of connections."""
        ...


class Rates(Protocol):
    """Counts consultations."""

    def take(self, workspace_id: str, provider_id: str) -> None:
        """Count one. Raises AskdError (rate_limited) where that would be one too many."""
        ...


@value
class ConsultRequest:
    """What a caller wants to be advised on, and by whom. No index: on every question of the ask."""

    ask_id: str
    provider_id: str
    model_id: str
    question_index: int | None = None
    note: str = ""
    system: str = ""


class Consulting:
    """The use case of ConsultAsk."""

    def __init__(self, asks: Asks, streams: Streams, advisors: Mapping[str, Advisor], rates: Rates) -> None:
        self._asks = asks
        self._streams = streams
        self._advisors = advisors
        self._rates = rates

    async def consult(self, access: Access, request: ConsultRequest) -> tuple[Advice, TokenUsage]:
        """Advice on a pending ask, and what it cost. What is wrong is found in the contract's order, and only what
        passes is counted and reaches the provider. Raises AskdError."""
        ask = await self._pending(access, request.ask_id)
        advisor = self._advisor(request)
        consultation = _consultation(ask, request)
        await advisor.open()
        self._rates.take(access.workspace_id, request.provider_id)
        try:
            async with self._limited(access, advisor.timeout) as deadline:
                return await _advise(advisor, request.model_id, consultation, deadline)
        except AskdError as error:
            # What is wrong with an output quotes it, and is not for a log.
            reason = error.message if error.code is Code.PROVIDER_UNAVAILABLE else error.code
            log.warning("consulting %s came to nothing: %s", request.provider_id, reason)
            raise

    async def _pending(self, access: Access, ask_id: str) -> Ask:
        ask = await self._asks.get(access, AskReference(ask_id=ask_id))
        access.require(Role.ANSWERER, ask.session_id)
        if ask.status is not AskStatus.PENDING:
            raise already_resolved(ask)
        return ask

    def _advisor(self, request: ConsultRequest) -> Advisor:
        advisor = self._advisors.get(request.provider_id)
        if advisor is None:
            raise _unknown("provider_id", "no such provider is configured")
        if request.model_id not in advisor.models:
            raise _unknown("model_id", "the provider is not configured with this model")
        return advisor

    @asynccontextmanager
    async def _limited(self, access: Access, seconds: float) -> AsyncIterator[float]:
        """Ends what runs inside when the time is over, which it yields as a time of the event loop; and as watches end:
        with the caller's right to look, and when the server drains."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self._streams.open(access) as stream:
            stream.sleeps_on(ended)
            try:
                async with asyncio.timeout(seconds) as limit:
                    ended.add_done_callback(lambda _: _expire(limit))
                    yield limit.when() or 0
            except TimeoutError:
                if ended.done():
                    ended.result()
                raise provider_unavailable(f"the provider did not answer within {seconds:g} s") from None
        if ended.done():
            ended.exception()  # too late to count, but looked at

    async def close(self) -> None:
        """Let go of connections to providers."""
        for advisor in self._advisors.values():
            await advisor.close()


def _expire(limit: asyncio.Timeout) -> None:
    with suppress(RuntimeError):  # over already
        limit.reschedule(0)


def _unknown(field: str, reason: str) -> AskdError:
    return AskdError(Code.PROVIDER_UNKNOWN, f"{field}: {reason}", field=field)


def _consultation(ask: Ask, request: ConsultRequest) -> Consultation:
    questions = _questions(ask, request.question_index)
    return Consultation(
        questions=questions,
        note=check_size(request.note, "note", limits.REASON),
        system=check_size(request.system, "system", limits.REASON),
    )


def _questions(ask: Ask, index: int | None) -> Sequence[Question]:
    if index is None:
        return ask.questions
    if not 0 <= index < len(ask.questions):
        raise invalid("question_index", f"the ask has {len(ask.questions)} questions, counted from 0")
    return [ask.questions[index]]


async def _advise(
    advisor: Advisor, model: str, consultation: Consultation, deadline: float
) -> tuple[Advice, TokenUsage]:
    """Ask until the output can be used, each time saying what was wrong before."""
    usage = TokenUsage()
    for left in reversed(range(ATTEMPTS)):
        reply = await advisor.ask(model, consultation, deadline)
        usage += reply.usage
        try:
            return read_advice(reply.output, consultation.questions), usage
        except AskdError as error:
            if not left:
                raise
            consultation = replace(consultation, refused=error.message)
    raise AssertionError("the last attempt returns or raises")
