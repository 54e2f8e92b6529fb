"""askd: programs ask people things; people answer, once; everyone interested watches."""

from typing import TYPE_CHECKING, Any

from askd.domain.errors import ContentError
from askd.domain.validation import validate_question

if TYPE_CHECKING:
    from askd.client import (
        Answered,
        Answerer,
        AskCancelledError,
        AskExpiredError,
        AskRejectedError,
        AsyncClient,
        AsyncTurn,
        Client,
        QuestionError,
        RequestError,
        Turn,
        UnansweredError,
        UnjoinedError,
        WatchItem,
        tls_credentials,
    )

__all__ = [
    "Answered",
    "Answerer",
    "AskCancelledError",
    "AskExpiredError",
    "AskRejectedError",
    "AsyncClient",
    "AsyncTurn",
    "Client",
    "ContentError",
    "QuestionError",
    "RequestError",
    "Turn",
    "UnansweredError",
    "UnjoinedError",
    "WatchItem",
    "tls_credentials",
    "validate_question",
]


def __getattr__(name: str) -> Any:
    """The client is imported at its first use: validating a question needs no gRPC."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from askd import client

    return getattr(client, name)
