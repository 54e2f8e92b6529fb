"""What the gateway answers instead of success, before a dialect gives it its shape (CONTRACT section 6)."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from askd.domain.errors import AskdError, Code

#: Codes that only HTTP has.
METHOD_NOT_ALLOWED = "method_not_allowed"
REQUEST_TIMEOUT = "request_timeout"
PAYLOAD_TOO_LARGE = "payload_too_large"
HEAD_TOO_LARGE = "head_too_large"
UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
UNIMPLEMENTED = "unimplemented"
INTERNAL = "internal"

#: The HTTP status of every code, where a dialect has none of its own for it.
STATUS: Mapping[str, int] = {
    Code.INVALID_ARGUMENTS: 400,
    Code.CONTENT_KIND_UNSUPPORTED: 400,
    Code.CONTENT_LIMIT_EXCEEDED: 400,
    Code.ANSWER_INVALID: 400,
    Code.PROVIDER_UNKNOWN: 400,
    Code.UNAUTHENTICATED: 401,
    Code.PERMISSION_DENIED: 403,
    Code.NOT_FOUND: 404,
    METHOD_NOT_ALLOWED: 405,
    REQUEST_TIMEOUT: 408,
    Code.ASK_ALREADY_RESOLVED: 409,
    Code.TURN_ENDED: 409,
    Code.SESSION_ENDED: 409,
    Code.SESSION_NOT_ROOT: 409,
    Code.OUTPUT_BUDGET_EXCEEDED: 409,
    Code.ANSWER_ID_CONFLICT: 409,
    Code.REQUEST_ID_CONFLICT: 409,
    Code.REVISION_COMPACTED: 410,
    PAYLOAD_TOO_LARGE: 413,
    UNSUPPORTED_MEDIA_TYPE: 415,
    Code.RATE_LIMITED: 429,
    HEAD_TOO_LARGE: 431,
    INTERNAL: 500,
    UNIMPLEMENTED: 501,
    Code.MODEL_OUTPUT_INVALID: 502,
    Code.PROVIDER_UNAVAILABLE: 502,
    Code.UNAVAILABLE: 503,
    Code.DEADLINE_EXCEEDED: 504,
}

# What a status without details means: it comes from gRPC itself, whose texts name addresses and are not passed on.
_BARE: Mapping[grpc.StatusCode, tuple[str, str]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (Code.INVALID_ARGUMENTS, "the server does not take the request"),
    grpc.StatusCode.UNAUTHENTICATED: (Code.UNAUTHENTICATED, "the credential is not valid"),
    grpc.StatusCode.PERMISSION_DENIED: (Code.PERMISSION_DENIED, "permission denied"),
    grpc.StatusCode.NOT_FOUND: (Code.NOT_FOUND, "not found"),
    grpc.StatusCode.UNIMPLEMENTED: (UNIMPLEMENTED, "the server does not offer this yet"),
    grpc.StatusCode.UNAVAILABLE: (Code.UNAVAILABLE, "the askd server cannot be reached"),
    grpc.StatusCode.CANCELLED: (Code.UNAVAILABLE, "the askd server ended the call"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (Code.UNAVAILABLE, "the askd server has no room for the call"),
    grpc.StatusCode.DEADLINE_EXCEEDED: (Code.DEADLINE_EXCEEDED, "the askd server did not answer in time"),
}

Headers = Sequence[tuple[bytes, bytes]]


# What callers wrote is named in messages, but not sent back by the megabyte.
MESSAGE = 1000
FIELD = 200


def shorten(text: str, length: int) -> str:
    """The text, or its beginning where it is longer than `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


class RefusalError(Exception):
    """A request that is refused with a code of CONTRACT section 6 or one of HTTP's own.

    `field` is the path of what is wrong in the names of the one who says it, `retry_after` seconds, `headers` what the
    response must carry beside the dialect's own.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str = "",
        metadata: Mapping[str, str] | None = None,
        resource: str = "",
        retry_after: float | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(message)
        self.code = str(code)
        self.message = shorten(message, MESSAGE)
        self.field = shorten(field, FIELD)
        self.metadata = dict(metadata or {})
        self.resource = resource
        self.retry_after = retry_after
        self.headers = tuple(headers)

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return STATUS.get(self.code, 500)

    @property
    def reason(self) -> str:
        """The message without the field that it begins with."""
        return self.message.removeprefix(f"{self.field}: ") if self.field else self.message

    def at(self, field: str) -> "RefusalError":
        """The same refusal, said of another field, whose name the message takes over."""
        message = f"{field}: {self.reason}" if self.message != self.reason else self.message
        return RefusalError(
            self.code, message, field=field, metadata=self.metadata, resource=self.resource,
            retry_after=self.retry_after, headers=self.headers,
        )  # fmt: skip


def invalid(field: str, reason: str) -> RefusalError:
    """Something in the request, named by `field`, that the dialect does not take."""
    return RefusalError(Code.INVALID_ARGUMENTS, f"{field}: {reason}", field=field)


def of_askd(error: AskdError) -> RefusalError:
    """The refusal of an error that the domain raised here."""
    return RefusalError(error.code, error.message, field=error.field, retry_after=error.retry_after)


def of_rpc(error: grpc.aio.AioRpcError) -> RefusalError:
    """The refusal that a failed call means."""
    details = _details(error)
    info = details.get("ErrorInfo")
    if info is None:
        code, message = _BARE.get(error.code(), (INTERNAL, "internal error"))
        return RefusalError(code, message, retry_after=1.0 if code == Code.UNAVAILABLE else None)
    violations = details["BadRequest"].field_violations if "BadRequest" in details else ()
    return RefusalError(
        info.reason.lower(),
        error.details() or "",
        field=violations[0].field if violations else "",
        metadata=info.metadata,
        resource=details["ResourceInfo"].resource_name if "ResourceInfo" in details else "",
        retry_after=details["RetryInfo"].retry_delay.ToTimedelta().total_seconds() if "RetryInfo" in details else None,
    )


_KINDS = (
    error_details_pb2.ErrorInfo,
    error_details_pb2.BadRequest,
    error_details_pb2.ResourceInfo,
    error_details_pb2.RetryInfo,
)


def _details(error: grpc.aio.AioRpcError) -> dict[str, Any]:
    """The details of a status by the names of their messages."""
    try:
        status = rpc_status.from_call(error)
    except ValueError:  # says something else than the status it belongs to: whoever wrote it was not askd
        return {}
    found = {}
    for packed in status.details if status else ():
        for kind in _KINDS:
            message = kind()
            if packed.Unpack(message):
                found[kind.DESCRIPTOR.name] = message
    return found
