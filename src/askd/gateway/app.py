"""The gateway as an ASGI application."""

from functools import cached_property
from importlib.metadata import version
from typing import Any

import grpc
from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from askd.domain.errors import Code
from askd.gateway import dialect_a, dialect_b, documentation, openapi, opencode
from askd.gateway.exchange import Exchange, encode_json
from askd.gateway.metrics import Metrics
from askd.gateway.operations import operations
from askd.gateway.routing import Dispatcher
from askd.gateway.settings import GatewaySettings
from askd.gateway.upstream import Upstream, open_channel

_JSON = ((b"content-type", b"application/json"),)
_SENT = ("Authorization", "Content-Type", "Idempotency-Key", "Last-Event-ID", "x-opencode-workspace",
         "x-opencode-directory")  # fmt: skip


class _Cors(CORSMiddleware):
    """The stock middleware with its refusals in JSON, as everything else here refuses."""

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code == 200:
            return response
        error = {"code": Code.PERMISSION_DENIED, "message": bytes(response.body).decode()}
        return JSONResponse({"error": error}, response.status_code, {"vary": response.headers["vary"]})


class Gateway(FastAPI):
    """The application. It lives in the event loop of its channel.

    One route takes every request: FastAPI's own decode a path before they match it, and spend more on a request than
    everything else here does.
    """

    def __init__(self, channel: grpc.aio.Channel, settings: GatewaySettings) -> None:
        super().__init__(
            title="askd", version=version("askd"), openapi_url=None, docs_url=None, redoc_url=None,
            telemetry={"tracing": False, "metrics": False, "logs": False},
        )  # fmt: skip
        metrics = Metrics(settings.registry)
        self.upstream = Upstream(channel, settings, metrics)
        shown = operations(metrics, self._show_document, self._show_page)
        self.dialects = (dialect_a.DIALECT, dialect_b.DIALECT, opencode.DIALECT, shown)
        self.router.routes.append(Dispatcher(self.dialects, dialect_a.shape, self.upstream))
        if settings.cors_origins:
            self._allow(settings.cors_origins)

    def _allow(self, origins: tuple[str, ...]) -> None:
        self.add_middleware(
            _Cors,
            allow_origins=origins,
            allow_methods=("GET", "POST"),
            allow_headers=_SENT,
            # What a browser adds by itself goes to origins that are named, never to all.
            allow_credentials="*" not in origins,
            expose_headers=("Retry-After",),
        )

    def build_middleware_stack(self) -> ASGIApp:
        """What was added around the router, without FastAPI's own layers: they wait for exceptions, of which the
        dispatcher lets none through."""
        app: ASGIApp = self.router
        for middleware in reversed(self.user_middleware):
            app = middleware.cls(app, *middleware.args, **middleware.kwargs)
        return app

    def openapi(self) -> dict[str, Any]:
        """The description of every path."""
        if self.openapi_schema is None:
            self.openapi_schema = openapi.document(self.dialects, self.version)
        return self.openapi_schema

    @cached_property
    def _page(self) -> bytes:
        return documentation.render(self.openapi())

    async def _show_document(self, exchange: Exchange) -> None:
        await exchange.reply_bytes(200, encode_json(self.openapi()), _JSON)

    async def _show_page(self, exchange: Exchange) -> None:
        await exchange.reply_bytes(200, self._page, documentation.HEADERS)

    def drain(self) -> None:
        """End waits and event streams, and refuse new ones; other requests go on."""
        self.upstream.drain()

    async def close(self) -> None:
        """Close the channel to the server. Nothing works afterwards."""
        await self.upstream.close()


def create_app(upstream: grpc.aio.Channel | str, settings: GatewaySettings | None = None) -> Gateway:
    """The application that serves HTTP in front of an askd server (CONTRACT section 7).

    `upstream` is a channel, or HOST:PORT of the server. Call it in the event loop in which the application will run.
    """
    settings = settings or GatewaySettings()
    channel = open_channel(upstream, settings) if isinstance(upstream, str) else upstream
    return Gateway(channel, settings)
