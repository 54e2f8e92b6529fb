"""Routes over the segments of a path, each percent-decoded exactly once after the path was split.

FastAPI decodes a path before it routes, so an id with an encoded slash in it would fall apart.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from starlette.routing import BaseRoute, Match
from starlette.types import Receive, Scope, Send

from askd.domain.errors import AskdError, Code
from askd.gateway.exchange import ClientLeftError, Exchange, Shape
from askd.gateway.refusals import INTERNAL, METHOD_NOT_ALLOWED, RefusalError, invalid, of_askd
from askd.gateway.upstream import Upstream

_log = logging.getLogger("askd.gateway")

Handler = Callable[[Exchange], Awaitable[None]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Route:
    """A method and a path like /v1/sessions/{sessionId}, with its OpenAPI description."""

    method: str
    path: str
    handle: Handler
    guarded: bool = True
    """Whether the route takes a credential."""
    description: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """Paths that share a first segment and the form of their errors."""

    prefixes: Sequence[str]
    shape: Shape
    routes: Sequence[Route]


class _Path:
    """A path pattern with the routes of its methods."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._segments = [(part, part[1:-1] if part.startswith("{") else "") for part in path.split("/")[1:]]
        self.routes: dict[str, Route] = {}

    def match(self, segments: Sequence[str]) -> dict[str, str] | None:
        """The parameters of a path that fits. A parameter is never empty: that would leave it open."""
        parameters = {}
        for (static, name), segment in zip(self._segments, segments, strict=True):
            if name and segment:
                parameters[name] = segment
            elif segment != static:
                return None
        return parameters


class Dispatcher(BaseRoute):
    """The one route of the application: finds who handles a request, and puts refusals in the form of its dialect."""

    def __init__(self, dialects: Iterable[Dialect], default: Shape, upstream: Upstream) -> None:
        self._default = default
        self._upstream = upstream
        self._metrics = upstream.metrics
        self._shapes: dict[str, Shape] = {}
        self._paths: dict[int, list[_Path]] = {}
        for dialect in dialects:
            self._shapes |= dict.fromkeys(dialect.prefixes, dialect.shape)
            for route in dialect.routes:
                self._add(route)

    def _add(self, route: Route) -> None:
        group = self._paths.setdefault(route.path.count("/"), [])
        path = next((path for path in group if path.path == route.path), None)
        if path is None:
            group.append(path := _Path(route.path))
        path.routes[route.method] = route

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """Every HTTP request: what is unknown is refused in the form of its dialect too."""
        return (Match.FULL if scope["type"] == "http" else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, whatever becomes of it."""
        begin = time.perf_counter()
        exchange = Exchange(scope, receive, send, self._upstream, {})
        try:
            path, exchange.parameters = self._find(split(scope["raw_path"]))
            exchange.route = path.path
            route = _route(path, scope["method"])
            if route.guarded:
                exchange.require_credential()
            await route.handle(exchange)
        except asyncio.CancelledError:
            _forgive(exchange)
        except Exception as error:
            await self._refuse(error, exchange, scope)
        finally:
            exchange.close()
            seconds = None if exchange.lasting else time.perf_counter() - begin
            self._metrics.count(exchange.route, scope["method"], exchange.status, seconds)

    def _find(self, segments: Sequence[str]) -> tuple[_Path, dict[str, str]]:
        for path in self._paths.get(len(segments), ()):
            parameters = path.match(segments)
            if parameters is not None:
                return path, parameters
        raise RefusalError(Code.NOT_FOUND, "there is no such path")

    async def _refuse(self, error: Exception, exchange: Exchange, scope: Scope) -> None:
        if isinstance(error, ClientLeftError) or exchange.left:
            return
        refusal = _refusal(error)
        if exchange.status:
            # A response that has begun can only break off, which the client can tell from its end.
            _log.warning("a response of %s broke off: %s", exchange.route, refusal.code)
            return
        first = scope["raw_path"].split(b"/", 2)[1:2]
        shape = self._shapes.get(first[0].decode("latin-1") if first else "", self._default)
        await exchange.refuse(refusal, shape)


def _forgive(exchange: Exchange) -> None:
    """Go on after a cancellation that only means that the client left."""
    task = asyncio.current_task()
    if not exchange.left or task is None or task.uncancel():
        raise asyncio.CancelledError


def _refusal(error: Exception) -> RefusalError:
    match error:
        case RefusalError():
            return error
        case AskdError():
            return of_askd(error)
    _log.error("a request failed", exc_info=error)
    return RefusalError(INTERNAL, "internal error")


def split(raw_path: bytes) -> list[str]:
    """The segments of a path as it came, each decoded once."""
    parts = raw_path.split(b"/")[1:]
    try:
        return [part.decode() if b"%" not in part else _decoded(part) for part in parts]
    except UnicodeDecodeError:
        raise invalid("path", "must be percent-encoded UTF-8") from None


def _decoded(segment: bytes) -> str:
    text = unquote_to_bytes(segment).decode()
    # What looks like an escape and is none would be read as itself by one and as an error by another.
    for escape in segment.split(b"%")[1:]:
        if len(escape) < 2 or not all(digit in b"0123456789abcdefABCDEF" for digit in escape[:2]):
            raise invalid("path", "must be percent-encoded UTF-8")
    return text


def _route(path: _Path, method: str) -> Route:
    route = path.routes.get(method)
    if route is None:
        allowed = ", ".join(sorted(path.routes))
        headers = ((b"allow", allowed.encode()),)
        raise RefusalError(METHOD_NOT_ALLOWED, f"this path takes {allowed}", headers=headers)
    return route
