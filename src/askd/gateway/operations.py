"""The paths for those who run askd and for those who learn it: health, metrics and documentation."""

from askd.gateway.describe import STRING, operation, record, ref, success, words
from askd.gateway.dialect_a import shape
from askd.gateway.exchange import Exchange
from askd.gateway.metrics import CONTENT_TYPE, Metrics
from askd.gateway.routing import Dialect, Handler, Route

TAG = "Operations"
_SERVING = "SERVING"
_HEALTH = record({"status": words("serving", "not_serving", "unknown", "unreachable")})
SCHEMAS = {"Health": _HEALTH}


async def healthz(exchange: Exchange) -> None:
    """GET /healthz: whether the server's health service answers, whatever it says."""
    status = await exchange.upstream.health()
    await _say(exchange, status, well=bool(status))


async def readyz(exchange: Exchange) -> None:
    """GET /readyz: whether the server's health service says that it serves."""
    status = await exchange.upstream.health()
    await _say(exchange, status, well=status == _SERVING)


async def _say(exchange: Exchange, status: str, well: bool) -> None:
    await exchange.reply(200 if well else 503, {"status": status.lower() or "unreachable"})


def _described(name: str, summary: str, answers: dict[str, object]) -> dict[str, object]:
    described = operation(name, TAG, summary, answers=answers, errors={0: ref("Error")})
    responses = {status: response for status, response in described["responses"].items() if status in answers}
    return {**described, "responses": responses, "security": []}


def _health(name: str, summary: str) -> dict[str, object]:
    unwell = success("It is not.", ref("Health"), status=503)
    return _described(name, summary, {**success("It is.", ref("Health")), **unwell})


def _text(kind: str) -> dict[str, object]:
    return {"200": {"description": "The text.", "content": {kind: {"schema": STRING}}}}


def _open(path: str, handle: Handler, description: dict[str, object]) -> Route:
    return Route(method="GET", path=path, handle=handle, guarded=False, description=description)


def operations(metrics: Metrics, document: Handler, page: Handler) -> Dialect:
    """The routes, given what shows the OpenAPI document and the page made of it."""

    async def show_metrics(exchange: Exchange) -> None:
        await exchange.reply_bytes(200, metrics.text(), ((b"content-type", CONTENT_TYPE),))

    return Dialect(
        prefixes=("healthz", "readyz", "metrics", "openapi.json", "docs"),
        shape=shape,
        routes=(
            _open("/healthz", healthz,
                  _health("healthz", "Whether the server is alive, by its own health service")),
            _open("/readyz", readyz,
                  _health("readyz", "Whether the server takes work, by its own health service")),
            _open("/metrics", show_metrics,
                  _described("metrics", "Metrics of the gateway for Prometheus", _text("text/plain"))),
            _open("/openapi.json", document,
                  _described("openapi", "This description", success("OpenAPI 3.1.", {"type": "object"}))),
            _open("/docs", page,
                  _described("docs", "This description as a page", _text("text/html"))),
        ),
    )  # fmt: skip
