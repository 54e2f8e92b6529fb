"""Hints over LISTEN and NOTIFY, on a connection of its own.

NOTIFY comes after the commit that it tells of, in a transaction of its own: inside, it would make the commits of the
whole database wait for one another.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import asyncpg

from askd.domain.asks import AskEvent, AskStatus
from askd.store.database import Hint

log = logging.getLogger(__name__)

CHANNEL = "askd"
#: Resolved asks in one notification, which PostgreSQL bounds at 8,000 bytes.
IDS = 180
#: Workspaces that wait to be told of. More are dropped: whoever watches them polls.
WAITING = 10_000
#: Seconds between looks at whether the connection lives, and for it to answer.
PING = 5.0
ANSWER = 5.0
#: Seconds before the first and the latest attempts to connect again.
BACKOFF = (0.1, 5.0)

_NOTIFY = "SELECT pg_notify($1, payload) FROM unnest($2::text[]) payload"


class Listener:
    """Sends and hears hints. `arguments` are asyncpg.connect()'s."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self._arguments = arguments
        #: The newest revision of each workspace that is to be told of, and the asks resolved there.
        self._waiting: dict[str, tuple[int, list[str]]] = {}
        self._something = asyncio.Event()

    def announce(self, events: Sequence[AskEvent]) -> None:
        """See Hints."""
        for event in events:
            workspace_id = event.ask.workspace_id
            if workspace_id not in self._waiting and len(self._waiting) >= WAITING:
                continue
            revision, resolved = self._waiting.get(workspace_id, (0, []))
            if event.ask.status is not AskStatus.PENDING:
                resolved.append(event.ask.id)
            self._waiting[workspace_id] = max(revision, event.revision), resolved
            self._something.set()

    async def run(self, hear: Callable[[Hint], None], connected: Callable[[], None]) -> None:
        """See Hints."""
        shortest, longest = BACKOFF
        pause = shortest
        while True:
            try:
                connection = await self._connect(hear)
                try:
                    pause = shortest
                    connected()
                    await self._serve(connection)
                finally:
                    connection.terminate()
            except Exception as error:  # whatever it is, it must not end the listener
                log.warning("the listener has no connection: %s", type(error).__name__)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311  # many servers lose theirs together
            pause = min(pause * 2, longest)

    async def _connect(self, hear: Callable[[Hint], None]) -> Any:
        def receive(_: object, __: object, ___: object, payload: object) -> None:
            with suppress(ValueError, KeyError, TypeError):  # somebody else's
                hear(_decode(str(payload)))

        # What a notification writes need not survive a crash, so its transaction waits for no disk.
        settings = {"application_name": "askd listener", "synchronous_commit": "off"}
        connection = await asyncpg.connect(
            **self._arguments, timeout=ANSWER, command_timeout=ANSWER, server_settings=settings
        )
        try:
            connection.add_termination_listener(lambda _: self._something.set())
            await connection.add_listener(CHANNEL, receive)
        except BaseException:
            connection.terminate()
            raise
        return connection

    async def _serve(self, connection: Any) -> None:
        """Send what waits; where nothing does for a while, look whether the connection lives."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(PING * random.uniform(0.8, 1.0)):  # noqa: S311  # as above
                    await self._something.wait()
            self._something.clear()
            waiting, self._waiting = self._waiting, {}
            payloads = [payload for key, (revision, ids) in waiting.items() for payload in _encode(key, revision, ids)]
            await connection.execute(_NOTIFY, CHANNEL, payloads)


def _encode(workspace_id: str, revision: int, resolved: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(resolved) or 1, IDS):
        hint = [workspace_id, revision, resolved[start : start + IDS]]
        yield json.dumps(hint, ensure_ascii=False, separators=(",", ":"))


def _decode(payload: str) -> Hint:
    workspace_id, revision, resolved = json.loads(payload)
    return Hint(workspace_id=str(workspace_id), revision=int(revision), resolved=list(map(str, resolved)))
