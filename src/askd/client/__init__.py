"""The typed Python client of an askd server."""

from askd.client.async_client import AsyncClient
from askd.client.errors import (
    AskCancelledError,
    AskExpiredError,
    AskRejectedError,
    QuestionError,
    RequestError,
    UnansweredError,
    UnjoinedError,
)
from askd.client.outcomes import Answered, Answerer
from askd.client.sync_client import Client, Turn
from askd.client.tls import tls_credentials
from askd.client.turns import AsyncTurn
from askd.client.watching import WatchItem

__all__ = [
    "Answered",
    "Answerer",
    "AskCancelledError",
    "AskExpiredError",
    "AskRejectedError",
    "AsyncClient",
    "AsyncTurn",
    "Client",
    "QuestionError",
    "RequestError",
    "Turn",
    "UnansweredError",
    "UnjoinedError",
    "WatchItem",
    "tls_credentials",
]
