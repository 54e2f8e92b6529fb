"""A proxy between servers and their database, which cuts connections as they commit."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import make_url

_SOCKET = ".s.PGSQL.5432"
_CHANGES = (b"INSERT", b"UPDATE", b"DELETE")

#: What becomes of a commit that is cut: it is done and its answer lost; it is sent and nobody waits for the answer; it
#: does not arrive, and the transaction is rolled back.
ANSWER_LOST, SENT, NOT_SENT = "answer lost", "sent", "not sent"


class Proxy:
    """Has every so many-th commit of a change cut, each time in another way. `every` 0 cuts none."""

    def __init__(self, folder: str, target: Path) -> None:
        self._folder = folder
        self._target = target
        self._ways = cycle((ANSWER_LOST, SENT, NOT_SENT))
        self._commits = 0
        self._pumps: set[asyncio.Task[None]] = set()
        self.every = 0
        #: How commits were cut.
        self.cut: list[str] = []

    def url(self, url: str) -> str:
        """The URL of a database through the proxy."""
        return make_url(url).update_query_dict({"host": self._folder}).render_as_string(hide_password=False)

    def way(self) -> str:
        """What becomes of the next commit: one of the ways to cut it, or nothing."""
        self._commits += 1
        if not self.every or self._commits % self.every:
            return ""
        self.cut.append(next(self._ways))
        return self.cut[-1]

    async def accept(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve a connection until either end closes it or it is cut."""
        try:
            answers, database = await asyncio.open_unix_connection(str(self._target))
        except OSError:
            writer.transport.abort()
            return
        session = _Session(self, writer, database)
        pumps = [asyncio.create_task(pump) for pump in (session.ask(reader), session.answer(answers))]
        self._pumps.update(pumps)
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump, end in zip(pumps, (writer, database), strict=True):
            pump.cancel()
            end.transport.abort()
        await asyncio.gather(*pumps, return_exceptions=True)
        self._pumps.difference_update(pumps)

    async def close(self) -> None:
        """Cut every connection."""
        while self._pumps:
            for pump in self._pumps:
                pump.cancel()
            await asyncio.sleep(0)


class _Session:
    """One connection."""

    def __init__(self, proxy: Proxy, client: StreamWriter, database: StreamWriter) -> None:
        self._proxy = proxy
        self._client = client
        self._database = database
        self._changed = False
        self._answer_lost = False

    async def ask(self, questions: StreamReader) -> None:
        """Pass on what the client says."""
        self._database.write(await _message(questions, kind=0))
        while True:
            message = await _message(questions)
            way = self._proxy.way() if self._changed and message[0:1] + message[5:] == b"QCOMMIT\0" else ""
            if way == NOT_SENT:
                return
            self._answer_lost = way == ANSWER_LOST
            self._database.write(message)
            await self._database.drain()
            if way == SENT:
                return

    async def answer(self, answers: StreamReader) -> None:
        """Pass on what the database says."""
        while True:
            message = await _message(answers)
            if message[0:1] == b"C":
                if self._answer_lost:
                    return
                self._changed = message[5:].startswith(_CHANGES) or (self._changed and message[5:] != b"BEGIN\0")
            if not self._answer_lost:
                self._client.write(message)
                await self._client.drain()


async def _message(reader: StreamReader, kind: int = 1) -> bytes:
    """A message of the protocol: its kind, which the first of a connection has not, its length, and that many bytes."""
    head = await reader.readexactly(kind + 4)
    return head + await reader.readexactly(int.from_bytes(head[kind:]) - 4)


@asynccontextmanager
async def proxied(target: Path) -> AsyncIterator[Proxy]:
    """A proxy before the PostgreSQL whose socket lies in a folder."""
    with TemporaryDirectory(prefix="askd-proxy-") as folder:  # in a test's own, the socket's path would be too long
        proxy = Proxy(folder, target / _SOCKET)
        server = await asyncio.start_unix_server(proxy.accept, f"{folder}/{_SOCKET}")
        try:
            yield proxy
        finally:
            server.close()
            await proxy.close()
