"""Point reads that coalesce: one query for all that wait."""

import asyncio
from collections.abc import Callable, Iterable
from contextvars import Context
from typing import TypeVar

from sqlalchemy import Connection

from askd.domain.asks import Ask, AskFilter
from askd.store.cache import AskCache
from askd.store.database import Database, refusing
from askd.store.queries import Page, load_asks, load_page

T = TypeVar("T")

#: Asks in one query.
BATCH = 128
#: The largest page whose asks are kept: people look at small ones again and again, programs take large ones once.
KEPT = 100


class Reader:
    """Reads for the service; what the database cannot do is unavailable."""

    def __init__(self, database: Database, cache: AskCache | None = None) -> None:
        self._database = database
        self._cache = cache
        self._wanted: dict[str, list[asyncio.Future[Ask | None]]] = {}
        self._task: asyncio.Task[None] | None = None

    async def read(self, transaction: Callable[[Connection], T]) -> T:
        """Run a function that only reads. Raises AskdError (unavailable)."""
        with refusing():
            return await self._database.read(transaction)

    async def get(self, ask_id: str) -> Ask | None:
        """One ask, or None where there is no such id; what is committed before the call is seen."""
        if self._cache and (ask := self._cache.get(ask_id)):
            return ask
        future: asyncio.Future[Ask | None] = asyncio.get_running_loop().create_future()
        self._wanted.setdefault(ask_id, []).append(future)
        if self._task is None:
            # In a context of its own: the reads of many callers end at no one's deadline.
            self._task = asyncio.create_task(self._run(), name="reader", context=Context())
        return await future

    async def page(self, query: AskFilter, after: int, limit: int) -> Page:
        """See load_page()."""
        if self._cache is None:
            return await self.read(lambda connection: load_page(connection, query, after, limit))
        pages, key = self._cache.pages.of(query.workspace_id), (query, after, limit)
        page = pages.get(key)
        if page is None:
            page = await self._load_page(self._cache, query, after, limit)
            self._cache.pages.put(pages, key, page)
        return page

    async def _load_page(self, cache: AskCache, query: AskFilter, after: int, limit: int) -> Page:
        known = cache.peek
        with cache.reading() as kept:
            page = await self.read(lambda connection: load_page(connection, query, after, limit, known))
            if len(page.asks) <= KEPT:
                kept += [ask for ask in page.asks if known(ask.id) is not ask]
        return page

    async def close(self) -> None:
        """Finish the reads that wait."""
        if self._task is not None:
            await self._task

    async def _run(self) -> None:
        # One read at a time: those that come while it runs wait for the next, together.
        while self._wanted:
            ids = list(self._wanted)[:BATCH]
            await self._load({ask_id: self._wanted.pop(ask_id) for ask_id in ids})
        self._task = None

    def forget(self) -> None:
        """Keep nothing that was read: payloads were erased, or are about to be."""
        if self._cache:
            self._cache.clear()

    async def _find(self, ids: Iterable[str]) -> dict[str, Ask]:
        if self._cache is None:
            return await self.read(lambda connection: load_asks(connection, ids))
        with self._cache.reading() as kept:
            found = await self.read(lambda connection: load_asks(connection, ids))
            kept += found.values()
        return found

    async def _load(self, waiting: dict[str, list[asyncio.Future[Ask | None]]]) -> None:
        try:
            found: dict[str, Ask] | Exception = await self._find(waiting)
        except Exception as error:  # whatever it is, it is the callers'
            found = error
        for ask_id, futures in waiting.items():
            for future in futures:
                if future.done():
                    continue
                if isinstance(found, Exception):
                    future.set_exception(found)
                else:
                    future.set_result(found.get(ask_id))
