"""The one exception family that a client raises (CONTRACT section 6)."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import grpc
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from askd.domain.errors import AskdError, Code, ContentError
from askd.v1 import ask_pb2 as pb
from askd.wire.json import word

DOMAIN = "askd"


class RequestError(Exception):
    """A request that was refused or could not be made; the base of every error that a client raises.

    `code` is the contract's code, or the gRPC status as a lower-case word where the server gave none; `message`
    explains and is not stable; `field` is the path of what is wrong, or empty; `metadata` holds what programs may need
    beside the code (of ask_already_resolved: the winner's status, resolved_at, resolved_revision and resolved_by);
    `retry_after` is the seconds after which a retry may help, or None; `attempts` is how often the call was tried.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        field: str = "",
        metadata: Mapping[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        # Not super(): QuestionError's next base has an __init__ of its own.
        Exception.__init__(self, message)
        self.code = code
        self.message = message
        self.field = field
        self.metadata = dict(metadata or {})
        self.retry_after = retry_after
        self.attempts = 1

    def __str__(self) -> str:
        return f"{self.code}: {self.message}"


class QuestionError(RequestError, ContentError):
    """A question that was refused before it was sent, also a ContentError (CONTRACT section 2)."""

    code: Code
    message: str
    field: str
    metadata: dict[str, str]
    retry_after: float | None

    def __init__(self, error: ContentError) -> None:
        super().__init__(error.code, error.message, field=error.field)
        self.resource = None


class UnansweredError(RequestError):
    """An ask that was waited for ended without an answer to give. `ask` is the ask.

    The `code` is none of the contract's, since no request was refused: ask_rejected, ask_cancelled, ask_expired, or
    payload_expired for an answer that came so long ago that it was erased.
    """

    def __init__(self, code: str, message: str, ask: pb.AskState) -> None:
        super().__init__(code, message)
        self.ask = ask


class AskRejectedError(UnansweredError):
    """Somebody refused to answer; `reason` is why, or empty."""

    def __init__(self, ask: pb.AskState) -> None:
        self.reason = ask.reject_reason
        super().__init__("ask_rejected", f"the ask was rejected{_because(self.reason)}", ask)


class AskCancelledError(UnansweredError):
    """The ask was cancelled; `reason` is withdrawn, interrupted, turn_ended, session_ended or expired."""

    def __init__(self, ask: pb.AskState, code: str = "ask_cancelled") -> None:
        self.reason = word(pb.CancelReason.Name(ask.cancel_reason), "CANCEL_REASON_")
        super().__init__(code, f"the ask was cancelled{_because(self.reason)}", ask)


class AskExpiredError(AskCancelledError):
    """Nobody answered in time: the ask was cancelled as expired."""

    def __init__(self, ask: pb.AskState) -> None:
        super().__init__(ask, "ask_expired")


def _because(reason: str) -> str:
    return f": {reason}" if reason else ""


class UnjoinedError(RequestError):
    """A turn was left while asks of it were not awaited to their end, and has failed (CONTRACT section 4).

    The `code` is asks_unjoined. `ask_ids` are the asks, as far as they were stored, the first 1,000 where they are
    others' too; `count` is how many there are in all.
    """

    def __init__(self, ask_ids: Sequence[str], count: int) -> None:
        super().__init__("asks_unjoined", f"{count} of the turn's asks were not awaited to their end")
        self.ask_ids = tuple(ask_ids)
        self.count = count


def from_rpc(error: grpc.aio.AioRpcError) -> RequestError:
    """The error that a failed call stands for."""
    status = error.code()
    failure = RequestError(_CODES.get(status) or status.name.lower(), error.details() or status.name)
    for detail in _details(error):
        _add(failure, detail)
    return failure


_CODES = {
    grpc.StatusCode.INVALID_ARGUMENT: Code.INVALID_ARGUMENTS.value,
    # gRPC's core gives it to calls that reach a server while it stops. A call that its caller cancels raises no error.
    grpc.StatusCode.CANCELLED: Code.UNAVAILABLE.value,
}


def _details(error: grpc.aio.AioRpcError) -> Iterator[object]:
    try:
        status: status_pb2.Status | None = rpc_status.from_call(error)
    except ValueError:  # the details contradict the status: a proxy's, not askd's
        return
    for packed in status.details if status else ():
        for kind in (error_details_pb2.ErrorInfo, error_details_pb2.BadRequest, error_details_pb2.RetryInfo):
            if packed.Is(kind.DESCRIPTOR):
                detail = kind()
                packed.Unpack(detail)
                yield detail


def _add(failure: RequestError, detail: object) -> None:
    match detail:
        case error_details_pb2.ErrorInfo(domain=domain) if domain == DOMAIN:
            failure.code = detail.reason.lower()
            failure.metadata = dict(detail.metadata)
        case error_details_pb2.BadRequest():
            failure.field = next((violation.field for violation in detail.field_violations), "")
        case error_details_pb2.RetryInfo():
            failure.retry_after = detail.retry_delay.ToTimedelta().total_seconds()


@contextmanager
def refusing(code: Code = Code.INVALID_ARGUMENTS) -> Iterator[None]:
    """Turn what the domain and protobuf refuse locally into RequestError."""
    try:
        yield
    except ContentError as error:
        raise QuestionError(error) from error
    except AskdError as error:
        raise RequestError(error.code, error.message, field=error.field) from error
    except UnicodeEncodeError as error:
        raise RequestError(code, "a lone surrogate is no Unicode text") from error
    except (ValueError, OverflowError) as error:
        raise RequestError(code, str(error)) from error
