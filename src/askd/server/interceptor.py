"""What every call of askd's services goes through: decoding, credentials, bounds, errors.

One wrapper does all of it, and is put around a handler once: gRPC looks its own interceptors up at each call, which
takes a tenth of it. Health and reflection are not touched.
"""

import asyncio
import inspect
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any, NoReturn, TypeAlias
from urllib.parse import unquote

import grpc
from google.protobuf.message import DecodeError

from askd.domain.errors import AskdError, Code, invalid, unavailable
from askd.domain.principals import Caller, unauthenticated
from askd.server.audit import CHANGES, Audit
from askd.server.errors import STATUS, details_of, message_of
from askd.server.throttle import Throttle
from askd.service.authority import Authority
from askd.store.database import deadline
from askd.v1.ask_service_pb2 import AskResponse

log = logging.getLogger(__name__)

#: What the gateway inside this process names its caller's address by.
PEER_KEY = "askd-peer"

_SCHEME = "bearer "

#: Calls under way at once, a kind. One more is refused as unavailable.
BOUNDS = {"call": 4096, "wait": 20_000, "watch": 20_000, "consult": 64}
#: Seconds after which the database is not to go on with a call's reads, where the call has no deadline.
SECONDS: dict[str, float | None] = {"call": 60.0, "wait": None, "consult": None}
#: The methods whose calls are of another kind than "call".
KINDS = {"WaitAsk": "wait", "ConsultAsk": "consult"}

_caller: ContextVar[Caller] = ContextVar("caller")

MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"
Context = grpc.aio.ServicerContext[Any, Any]
Handler = Callable[[Any, Context], Any]


def caller() -> Caller:
    """Who made the call that runs here."""
    return _caller.get()


class Interceptor:
    """Stands between the generated code and the server, and wraps what is registered."""

    def __init__(self, server: grpc.aio.Server, authority: Authority, throttle: Throttle, audit: Audit | None) -> None:
        self._server = server
        self._authority = authority
        self._throttle = throttle
        self._audit = audit
        self._draining = False
        self._wrapped: dict[str, MethodHandler] = {}
        #: Calls under way, by kind, and whether there are none.
        self.under_way: Counter[str] = Counter()
        self._total = 0
        self.idle = asyncio.Event()
        self.idle.set()

    def drain(self) -> None:
        """Refuse every further call."""
        self._draining = True

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Part of a server to the generated code. What it registers is the same."""

    def add_registered_method_handlers(self, service_name: str, handlers: Mapping[str, MethodHandler]) -> None:
        """Wrap a service's handlers and give them to the server, which finds them by name: it would wait for the next
        call of every registered method anew at each call."""
        wrapped = {name: self._wrap(handler, name) for name, handler in handlers.items()}
        self._server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service_name, wrapped)])
        self._wrapped |= {f"/{service_name}/{name}": handler for name, handler in wrapped.items()}

    def _wrap(self, handler: MethodHandler, name: str) -> MethodHandler:
        decode = _decoding(handler.request_deserializer)
        encode = _encoding(handler.response_serializer)
        # What the stubs call functions of a synchronous context are our coroutines and generators.
        if handler.response_streaming:
            stream: Handler = handler.unary_stream  # type: ignore[assignment]
            return grpc.unary_stream_rpc_method_handler(self._stream(stream), decode, encode)
        method: Handler = handler.unary_unary  # type: ignore[assignment]
        if not inspect.iscoroutinefunction(method):
            method = _unimplemented  # the generated base's method, which no servicer overrides
        return grpc.unary_unary_rpc_method_handler(self._unary(method, name), decode, encode)

    def _unary(self, method: Handler, name: str) -> Handler:
        kind = KINDS.get(name, "call")
        audited = name in CHANGES

        async def unary(request: Any, context: Context) -> Any:
            begun = False
            try:
                begun = self._begin(kind)
                await self._enter(request, context)
                if not audited:  # a change reads nothing for itself
                    _limit_reads(context, SECONDS[kind])
                response = await method(request, context)
                if audited:
                    self._record(name, request, context, "ok", response)
                return response
            except Exception as error:
                if audited:
                    self._record(name, request, context, error.code if isinstance(error, AskdError) else "internal")
                begun = begun and self._end(kind)  # a refusal that is held back takes nobody's place
                await self._refuse(error, context)
            finally:
                if begun:
                    self._end(kind)

        return unary

    def _stream(self, method: Handler) -> Handler:
        async def stream(request: Any, context: Context) -> AsyncIterator[Any]:
            begun = False
            try:
                begun = self._begin("watch")
                await self._enter(request, context)
                async with aclosing(method(request, context)) as responses:
                    async for response in responses:
                        yield response
            except Exception as error:
                begun = begun and self._end("watch")
                await self._refuse(error, context)
            finally:
                if begun:
                    self._end("watch")

        return stream

    def _record(self, name: str, request: Any, context: Context, outcome: str, response: Any = None) -> None:
        if self._audit is None:
            return
        who = _caller.get(None)
        self._audit.record(
            principal=str(who.principal) if who else "",
            action=name,
            ask=getattr(request, "ask_id", "") or _asked(response),
            outcome=outcome,
            peer=_peer(context),
        )

    async def _refuse(self, error: Exception, context: Context) -> NoReturn:
        if isinstance(error, AskdError) and error.code is Code.UNAUTHENTICATED:
            await self._throttle.hold(_peer(context))
        await _abort(error, context)

    def _begin(self, kind: str) -> bool:
        """Count a call in, as it returns, or refuse it."""
        if self._draining:
            raise unavailable("the server is draining")
        if self.under_way[kind] >= BOUNDS[kind]:
            raise unavailable("too many calls are under way")
        self.under_way[kind] += 1
        self._total += 1
        self.idle.clear()
        return True

    def _end(self, kind: str) -> bool:
        """Count a call out. Returns that it is no longer counted in."""
        self.under_way[kind] -= 1
        self._total -= 1
        if not self._total:
            self.idle.set()
        return False

    async def _enter(self, request: Any, context: Context) -> None:
        credential = _credential(context)
        _caller.set(self._authority.recall(credential) or await self._authority.authenticate(credential))
        if isinstance(request, _Undecodable):
            raise invalid("request", "is no message of this method")


class _Undecodable:
    """Stands for a request that could not be decoded: the refusal is the handler's."""


def _asked(response: Any) -> str:
    """The id of the ask that a call stored."""
    return AskResponse.FromString(response).ask.id if isinstance(response, bytes) else ""


def _limit_reads(context: Context, seconds: float | None) -> None:
    """Let no read of the call go on in the database after it is over."""
    spans = [span for span in (seconds, context.time_remaining()) if span is not None]
    if spans:
        deadline.set(asyncio.get_running_loop().time() + min(spans))


def _decoding(decode: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    assert decode is not None, "generated handlers have one"  # noqa: S101

    def decode_or_mark(data: bytes) -> Any:
        try:
            return decode(data)
        except DecodeError:
            return _Undecodable()

    return decode_or_mark


def _encoding(encode: Callable[[Any], bytes] | None) -> Callable[[Any], bytes]:
    assert encode is not None, "generated handlers have one"  # noqa: S101
    return lambda response: response if isinstance(response, bytes) else encode(response)


def _credential(context: Context) -> str:
    value = dict(context.invocation_metadata() or ()).get("authorization")
    if isinstance(value, str) and value[: len(_SCHEME)].lower() == _SCHEME:
        return value[len(_SCHEME) :].strip()
    raise unauthenticated()


def _peer(context: Context) -> str:
    """The caller's address. The gateway inside this process is trusted to say for whom it calls."""
    scheme, _, address = (context.peer() or "").partition(":")
    if scheme == "unix":
        return next((str(value) for key, value in context.invocation_metadata() or () if key == PEER_KEY), "unix")
    return unquote(address.rpartition(":")[0])


async def _unimplemented(_: Any, context: Context) -> NoReturn:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "not implemented")


async def _abort(error: Exception, context: Context) -> NoReturn:
    """The only place that aborts calls."""
    match error:
        case grpc.aio.AbortError():
            raise error
        case AskdError():
            refused = error
        case TimeoutError():
            refused = AskdError(Code.DEADLINE_EXCEEDED, "the call took too long")
        case _:
            identifier = secrets.token_hex(4)
            log.error("internal error %s", identifier, exc_info=error)
            await context.abort(grpc.StatusCode.INTERNAL, f"internal error {identifier}")
    details = (("grpc-status-details-bin", details_of(refused)),)
    await context.abort(STATUS[refused.code], message_of(refused), details)
