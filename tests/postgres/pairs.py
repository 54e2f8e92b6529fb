"""Two servers on one database."""

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients import Client
from tests.servers import Served, served


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Two servers, and a client of each with the same credential."""

    url: str
    a: Served
    b: Served

    @property
    def servers(self) -> tuple[Served, Served]:
        return self.a, self.b

    @property
    def clients(self) -> tuple[Client, Client]:
        return self.a.admin, self.b.admin


@asynccontextmanager
async def paired(url: str, folder: Path, **options: Any) -> AsyncIterator[Pair]:
    """Two servers that listen. `options` are as in askd.toml."""
    options = {"database": {"url": url}} | options
    (folder / "a").mkdir(mode=0o700)
    async with served(folder / "a", **options) as a:
        shutil.copytree(folder / "a", folder / "b")  # the second finds a key in the database and makes none
        async with served(folder / "b", **options) as b:
            yield Pair(url=url, a=a, b=b)
