"""The one error type of askd (CONTRACT section 6)."""

from collections.abc import Mapping
from enum import StrEnum


class Code(StrEnum):
    """The stable code of an error; its meaning is documented at ErrorReason in the protos."""

    INVALID_ARGUMENTS = "invalid_arguments"
    CONTENT_KIND_UNSUPPORTED = "content_kind_unsupported"
    CONTENT_LIMIT_EXCEEDED = "content_limit_exceeded"
    ANSWER_INVALID = "answer_invalid"
    PROVIDER_UNKNOWN = "provider_unknown"
    UNAUTHENTICATED = "unauthenticated"
    PERMISSION_DENIED = "permission_denied"
    NOT_FOUND = "not_found"
    ASK_ALREADY_RESOLVED = "ask_already_resolved"
    TURN_ENDED = "turn_ended"
    SESSION_ENDED = "session_ended"
    SESSION_NOT_ROOT = "session_not_root"
    OUTPUT_BUDGET_EXCEEDED = "output_budget_exceeded"
    ANSWER_ID_CONFLICT = "answer_id_conflict"
    REQUEST_ID_CONFLICT = "request_id_conflict"
    REVISION_COMPACTED = "revision_compacted"
    RATE_LIMITED = "rate_limited"
    MODEL_OUTPUT_INVALID = "model_output_invalid"
    PROVIDER_UNAVAILABLE = "provider_unavailable"
    UNAVAILABLE = "unavailable"
    DEADLINE_EXCEEDED = "deadline_exceeded"


class AskdError(Exception):
    """A refusal with a stable `code` and a message for people, which is not stable.

    `field` is the path of what is wrong, `metadata` what programs may need beside the code, `resource` the kind and id
    of what was not found, `retry_after` the seconds after which a retry may help.
    """

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        field: str = "",
        metadata: Mapping[str, str] | None = None,
        resource: tuple[str, str] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field
        self.metadata = dict(metadata or {})
        self.resource = resource
        self.retry_after = retry_after


class ContentError(AskdError):
    """A question that cannot be asked: `code` is invalid_arguments, content_kind_unsupported or
    content_limit_exceeded (CONTRACT section 2)."""


def invalid(field: str, reason: str) -> AskdError:
    """An argument outside a question that is wrong."""
    return AskdError(Code.INVALID_ARGUMENTS, f"{field}: {reason}", field=field)


def content(field: str, reason: str, code: Code = Code.INVALID_ARGUMENTS) -> ContentError:
    """Something in a question that is wrong."""
    return ContentError(code, f"{field}: {reason}", field=field)


def over_limit(field: str, size: int, limit: int, unit: str) -> ContentError:
    """Something in a question that is over a limit."""
    return content(field, f"{size} {unit}, the limit is {limit}", Code.CONTENT_LIMIT_EXCEEDED)


def not_found(kind: str, identifier: str) -> AskdError:
    """A thing that does not exist or that the caller cannot see."""
    return AskdError(Code.NOT_FOUND, f"{kind} {identifier} not found", resource=(kind, identifier))


def unavailable(reason: str, retry_after: float = 1.0) -> AskdError:
    """A passing condition of the server; retry after the given seconds."""
    return AskdError(Code.UNAVAILABLE, reason, retry_after=retry_after)
