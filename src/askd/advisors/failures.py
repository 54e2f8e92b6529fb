"""What a failed call says to the one who consults: one line of our own, with nothing that the provider wrote."""

from collections.abc import Iterator
from dataclasses import dataclass

from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelContextWindowExceededError,
    ModelHTTPError,
    ModelNotFoundError,
    ModelOverloadedError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelRequestRejectedError,
    ModelServerError,
    ModelTimeoutError,
    ModelUnavailableError,
    UserError,
)

from askd.advisors.bounds import RESPONSE, TooLargeError
from askd.domain.advice import output_invalid, provider_unavailable
from askd.domain.errors import AskdError


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """A call that came to nothing. `passing` ones may succeed when made again, after `retry_after` seconds where the
    provider asked for that."""

    error: AskdError
    passing: bool = False
    retry_after: float | None = None


# In this order: kinds of errors come before those that they are kinds of.
_REASONS: tuple[tuple[type[ModelAPIError], str], ...] = (
    (ModelAuthenticationError, "the provider refuses the key or what it asks for"),
    (ModelNotFoundError, "the provider does not know the model"),
    (ModelContextWindowExceededError, "what was asked is too long for the model"),
    (ModelRequestRejectedError, "the provider rejects the request"),
    (ModelQuotaExceededError, "the quota at the provider is used up"),
    (ModelRateLimitError, "the rate limit at the provider is reached"),
    (ModelOverloadedError, "the provider is overloaded"),
    (ModelUnavailableError, "the provider is unavailable"),
    (ModelServerError, "the provider failed"),
    (ModelTimeoutError, "the provider did not answer in time"),
)
_PASSING = (ModelRateLimitError, ModelUnavailableError, ModelServerError, ModelConnectionError)


def failure_of(error: Exception) -> Failure:
    """The failure that an exception of a call stands for."""
    if any(isinstance(cause, TooLargeError) for cause in _causes(error)):
        return Failure(error=output_invalid(f"the response is larger than {RESPONSE // 1024} KiB, or compressed"))
    if isinstance(error, UserError):
        return Failure(error=provider_unavailable("the model cannot be consulted in this way"))
    if not isinstance(error, ModelAPIError) or type(error) is ModelAPIError:  # of no kind: no error of an API
        return Failure(error=output_invalid("the response is none of the provider's API"))
    return Failure(
        error=provider_unavailable(_reason(error)),
        passing=isinstance(error, _PASSING),
        retry_after=error.retry_after,
    )


def _reason(error: ModelAPIError) -> str:
    status = f" (HTTP {error.status_code})" if isinstance(error, ModelHTTPError) else ""
    for kind, reason in _REASONS:
        if isinstance(error, kind):
            return reason + status
    if isinstance(error, ModelConnectionError):
        unsent = error.phase in ("pool", "connect")
        return "the provider cannot be reached" if unsent else "the provider closed the connection"
    return f"the provider failed{status}"


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
