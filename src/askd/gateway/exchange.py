"""One HTTP request and its response, on plain ASGI."""

import asyncio
import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes

from starlette.types import Receive, Scope, Send

from askd.domain.canonical import Json
from askd.gateway import credentials
from askd.gateway.reader import read_json
from askd.gateway.refusals import (
    PAYLOAD_TOO_LARGE,
    REQUEST_TIMEOUT,
    UNSUPPORTED_MEDIA_TYPE,
    Headers,
    RefusalError,
    invalid,
)

if TYPE_CHECKING:
    from askd.gateway.upstream import Upstream

BODY_LIMIT = 2 * 1024 * 1024
#: Seconds in which a body must have come whole.
BODY_SECONDS = 60.0
#: Seconds from the first upstream call until anybody looks whether the client is still there: most are done sooner.
PATIENCE = 0.05

_PIECE_BYTES = 64 * 1024
_LARGE = 128 * 1024
_UTF8 = (b"utf-8", b'"utf-8"', b"utf8")
_PEER = "askd-peer"
_NO_SNIFFING = (b"x-content-type-options", b"nosniff")
_CLOSE = (b"connection", b"close")
_JSON_HEADER = (b"content-type", b"application/json")

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode


def encode_json(value: object) -> bytes:
    """A value that was checked when it came in, as compact JSON."""
    return _encode(value).encode()


def gathered(items: Iterable[bytes], separator: bytes = b"") -> Iterator[bytes]:
    """Items joined to pieces that are large enough to cost little a byte, and small enough to flow."""
    piece: list[bytes] = []
    size = 0
    for item in items:
        piece.append(item)
        size += len(item)
        if size >= _PIECE_BYTES:
            yield separator.join(piece)
            piece, size = [], 0
    if piece:
        yield separator.join(piece)


class ClientLeftError(Exception):
    """The client closed its connection: there is nobody to answer."""


class Exchange:
    """A request, with the path's parameters decoded, and the means to respond to it."""

    def __init__(
        self, scope: Scope, receive: Receive, send: Send, upstream: "Upstream", parameters: Mapping[str, str]
    ) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self.upstream = upstream
        self.parameters = parameters
        self.route = "unknown"
        """The pattern of the path."""
        self.left = False
        """Whether the client is known to have left."""
        self._timer: asyncio.TimerHandle | None = None
        self._watcher: asyncio.Task[None] | None = None
        self.lasting = False
        """Whether the response is one that waits for something to happen."""
        self.status = 0
        """The status of the response; 0 until it begins."""

    # --- the request ---

    def headers(self, name: bytes) -> list[bytes]:
        """The values of a header, whose name is given in lower case."""
        return [value for key, value in self._scope["headers"] if key == name]

    def header(self, name: bytes) -> str | None:
        """The text of a header; None where it is not given. It is UTF-8, or Latin-1 as browsers write it."""
        values = self.headers(name)
        if not values:
            return None
        try:
            return values[0].decode()
        except UnicodeDecodeError:
            return values[0].decode("latin-1")

    @cached_property
    def credential(self) -> credentials.Credential:
        """The caller's credential. Without one the request is unauthenticated; with one that may not be its sender's
        own, it is permission_denied."""
        credential = credentials.parse(self.headers(b"authorization"))
        if credential.ambient and self._scope["method"] != "GET":
            origin, host, site = (self.header(name) for name in (b"origin", b"host", b"sec-fetch-site"))
            credentials.check_origin(origin, host, site, self.upstream.settings.cors_origins)
        return credential

    @cached_property
    def metadata(self) -> credentials.Metadata:
        """What every call for this request carries: its credential, and the address that it came from, which a server
        believes only of the gateway in its own process."""
        host = (self._scope.get("client") or ("",))[0]
        return (*self.credential.metadata, (_PEER, f"[{host}]" if ":" in host else host))

    def require_credential(self) -> None:
        """Refuse a request without a credential before its body is read."""
        _ = self.credential

    def query(self, name: str) -> str | None:
        """A parameter of the query; None where it is not given."""
        values = [value for key, value in self._query if key == name]
        if len(values) > 1:
            raise invalid(name, "is given more than once")
        return values[0] if values else None

    @cached_property
    def _query(self) -> list[tuple[str, str]]:
        pairs = (pair.partition(b"=") for pair in self._scope["query_string"].split(b"&"))
        try:
            return [(_decoded(key), _decoded(value)) for key, _, value in pairs]
        except UnicodeDecodeError:
            raise invalid("query", "must be percent-encoded UTF-8") from None

    def whole_query(self, name: str, least: int, most: int) -> int | None:
        """A parameter of ASCII digits; None where it is not given."""
        text = self.query(name)
        if text is None:
            return None
        if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
            raise invalid(name, f"must be a whole number from {least} to {most}")
        return int(text)

    async def json(self) -> Json:
        """The body's JSON value."""
        body = await self._body()
        if not body:
            raise invalid("body", "a JSON body is required")
        # A large body takes so long to read that others would notice.
        return read_json(body) if len(body) < _LARGE else await asyncio.to_thread(read_json, body)

    async def optional_json(self) -> Json:
        """The body's JSON value; None where there is no body."""
        body = await self._body()
        return read_json(body) if body else None

    async def _body(self) -> bytes:
        """The body: empty, or of type application/json and at most BODY_LIMIT bytes."""
        length = self.header(b"content-length") or ""
        if length.isascii() and length.isdigit() and (len(length) > 9 or int(length) > BODY_LIMIT):
            raise _too_large()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                body = await self._read()
        except TimeoutError:
            raise RefusalError(REQUEST_TIMEOUT, "the body did not come in time", headers=(_CLOSE,)) from None
        types = self.headers(b"content-type")
        if body and not (len(types) == 1 and _is_json(types[0])):
            raise RefusalError(UNSUPPORTED_MEDIA_TYPE, "the body must be application/json in UTF-8")
        return body

    async def _read(self) -> bytes:
        body = bytearray()
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientLeftError
            body += message.get("body", b"")
            if len(body) > BODY_LIMIT:
                raise _too_large()
            if not message.get("more_body", False):
                return bytes(body)

    # --- the client's presence ---

    def watch_client(self) -> None:
        """From now on give the request up when its client leaves. Its body must have been read."""
        task = asyncio.current_task()
        if self._timer is None and task is not None:
            self._timer = task.get_loop().call_later(PATIENCE, self._start_watching, task)

    def _start_watching(self, task: "asyncio.Task[object]") -> None:
        self._watcher = asyncio.create_task(self._cancel_when_gone(task))

    async def _cancel_when_gone(self, task: "asyncio.Task[object]") -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.left = True
        task.cancel()

    def close(self) -> None:
        """The request is done: nobody looks after its client any more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    # --- the response ---

    async def reply(self, status: int, value: object, headers: Headers = ()) -> None:
        """Respond with a JSON value."""
        await self.reply_bytes(status, encode_json(value), (_JSON_HEADER, *headers))

    async def reply_bytes(self, status: int, body: bytes, headers: Headers) -> None:
        """Respond with bytes, whose type the headers say."""
        await self.start(status, (*headers, (b"content-length", str(len(body)).encode())))
        await self._send({"type": "http.response.body", "body": body})

    async def start_json(self) -> None:
        """Begin a JSON response that is sent in pieces."""
        await self.start(200, (_JSON_HEADER,))

    async def start(self, status: int, headers: Headers) -> None:
        """Begin a response."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": [*headers, _NO_SNIFFING]})

    async def send(self, piece: bytes) -> None:
        """Send a piece of the body, once what was sent before has room."""
        await self._send({"type": "http.response.body", "body": piece, "more_body": True})

    async def finish(self, piece: bytes = b"") -> None:
        """Send the last piece of the body. A response without it breaks off, which the client can tell."""
        await self._send({"type": "http.response.body", "body": piece})

    async def refuse(self, refusal: RefusalError, shape: "Shape") -> None:
        """Respond with a refusal in a dialect's form."""
        status, value = shape(refusal, self)
        headers = [*refusal.headers]
        if status == 401:
            headers += credentials.challenge(self.headers(b"authorization"))
        if status in (429, 503) and refusal.retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(refusal.retry_after))).encode()))
        await self.reply(status, value, headers)


#: How a dialect puts a refusal: the status and the body.
Shape = Callable[[RefusalError, Exchange], tuple[int, dict[str, Any]]]


def _is_json(content_type: bytes) -> bool:
    """Whether a Content-Type is application/json, in UTF-8 where it says so."""
    kind, *parameters = (part.strip() for part in content_type.lower().split(b";"))
    named = (parameter.partition(b"=") for parameter in parameters)
    return kind == b"application/json" and all(value in _UTF8 for name, _, value in named if name == b"charset")


def _decoded(text: bytes) -> str:
    """A key or a value of the query; urllib's own parser takes bytes beyond ASCII for an error of its caller."""
    return unquote_to_bytes(text.replace(b"+", b" ")).decode()


def _too_large() -> RefusalError:
    # The connection stays: closing it while the client still sends could lose the response on its way.
    return RefusalError(PAYLOAD_TOO_LARGE, f"the body is over {BODY_LIMIT} bytes")
