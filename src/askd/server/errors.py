"""The one table from error codes to gRPC, and the details that an error carries (CONTRACT section 6)."""

from google.protobuf import any_pb2, duration_pb2
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2
from grpc import StatusCode

from askd.domain.errors import AskdError, Code

STATUS = {
    Code.INVALID_ARGUMENTS: StatusCode.INVALID_ARGUMENT,
    Code.CONTENT_KIND_UNSUPPORTED: StatusCode.INVALID_ARGUMENT,
    Code.CONTENT_LIMIT_EXCEEDED: StatusCode.INVALID_ARGUMENT,
    Code.ANSWER_INVALID: StatusCode.INVALID_ARGUMENT,
    Code.PROVIDER_UNKNOWN: StatusCode.INVALID_ARGUMENT,
    Code.UNAUTHENTICATED: StatusCode.UNAUTHENTICATED,
    Code.PERMISSION_DENIED: StatusCode.PERMISSION_DENIED,
    Code.NOT_FOUND: StatusCode.NOT_FOUND,
    Code.ASK_ALREADY_RESOLVED: StatusCode.FAILED_PRECONDITION,
    Code.TURN_ENDED: StatusCode.FAILED_PRECONDITION,
    Code.SESSION_ENDED: StatusCode.FAILED_PRECONDITION,
    Code.SESSION_NOT_ROOT: StatusCode.FAILED_PRECONDITION,
    Code.OUTPUT_BUDGET_EXCEEDED: StatusCode.FAILED_PRECONDITION,
    Code.ANSWER_ID_CONFLICT: StatusCode.ALREADY_EXISTS,
    Code.REQUEST_ID_CONFLICT: StatusCode.ALREADY_EXISTS,
    Code.REVISION_COMPACTED: StatusCode.OUT_OF_RANGE,
    Code.RATE_LIMITED: StatusCode.RESOURCE_EXHAUSTED,
    Code.MODEL_OUTPUT_INVALID: StatusCode.INTERNAL,
    Code.PROVIDER_UNAVAILABLE: StatusCode.UNAVAILABLE,
    Code.UNAVAILABLE: StatusCode.UNAVAILABLE,
    Code.DEADLINE_EXCEEDED: StatusCode.DEADLINE_EXCEEDED,
}

#: Bytes of a message, and of whatever else a user may have written. A status over about 8 KiB breaks the reply, and in
#: the header every byte beyond ASCII takes three.
_MESSAGE = 768
_NAME = 256


def message_of(error: AskdError) -> str:
    """The message as it is sent."""
    return _cut(error.message, _MESSAGE)


def details_of(error: AskdError) -> bytes:
    """The google.rpc.Status of an error, for the trailer grpc-status-details-bin."""
    status = status_pb2.Status(code=STATUS[error.code].value[0], message=message_of(error))
    for detail in _details(error):
        packed = any_pb2.Any()
        packed.Pack(detail)
        status.details.append(packed)
    return bytes(status.SerializeToString())


def _details(error: AskdError) -> list[Message]:
    metadata = {key: _cut(value, _NAME) for key, value in error.metadata.items()}
    details: list[Message] = [error_details_pb2.ErrorInfo(reason=error.code.name, domain="askd", metadata=metadata)]
    if error.field:
        violation = error_details_pb2.BadRequest.FieldViolation(
            field=_cut(error.field, _NAME), description=message_of(error)
        )
        details.append(error_details_pb2.BadRequest(field_violations=[violation]))
    if error.resource:
        kind, name = error.resource
        details.append(error_details_pb2.ResourceInfo(resource_type=kind, resource_name=_cut(name, _NAME)))
    if error.retry_after is not None:
        delay = duration_pb2.Duration()
        delay.FromMilliseconds(int(error.retry_after * 1000))
        details.append(error_details_pb2.RetryInfo(retry_delay=delay))
    return details


def _cut(text: str, limit: int) -> str:
    raw = text.encode(errors="replace")
    return raw.decode() if len(raw) <= limit else f"{raw[: limit - 3].decode(errors='ignore')}…"
