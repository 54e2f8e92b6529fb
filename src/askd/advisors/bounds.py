"""HTTP connections to providers that are not trusted with this server's memory or with the key's whereabouts."""

from collections.abc import AsyncIterator

import httpx2

#: Bytes of a response. A text of 64 KiB recommended for a question fits, and so do reasons.
RESPONSE = 256 * 1024


class TooLargeError(Exception):
    """A response of more than RESPONSE bytes, or one that is compressed, which may hide how large it is."""


class _Bounded(httpx2.AsyncByteStream):
    """The bytes of a response, up to a bound: what is beyond is left out or refused."""

    def __init__(self, stream: httpx2.AsyncByteStream, bound: int, *, cut: bool) -> None:
        self._stream = stream
        self._bound = bound
        self._cut = cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = self._bound
        async for chunk in self._stream:
            left -= len(chunk)
            if left >= 0:
                yield chunk
            elif self._cut:
                return
            else:
                raise TooLargeError

    async def aclose(self) -> None:
        await self._stream.aclose()


async def _bound(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.AsyncByteStream), "an asynchronous client has these"  # noqa: S101
    plain = response.headers.get("content-encoding", "identity") == "identity"
    # Of what an error says a part will do: its status tells most.
    response.stream = _Bounded(response.stream, RESPONSE if plain else 0, cut=response.is_error)


def open_client() -> httpx2.AsyncClient:
    """A client whose responses are bounded. It follows no redirects: they would take the key elsewhere. Whoever calls
    measures the time."""
    return httpx2.AsyncClient(
        timeout=None,
        follow_redirects=False,
        headers={"accept-encoding": "identity"},
        limits=httpx2.Limits(max_connections=100, max_keepalive_connections=10),
        event_hooks={"response": [_bound]},
    )
