"""The typed Python client of an askd server."""

from askd.client.async_client import AsyncClient
from askd.client.errors import QuestionError, RequestError
from askd.client.watching import WatchItem

__all__ = ["AsyncClient", "QuestionError", "RequestError", "WatchItem"]
