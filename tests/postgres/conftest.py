"""Fixtures: a PostgreSQL server, a database on it, and askd servers on that."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.postgres import recycling
from tests.postgres.cluster import Cluster, shared
from tests.postgres.pairs import Pair, paired
from tests.store.databases import Store

from askd.store.database import open_database
from askd.store.postgres import PostgresDatabase


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The server that the run shares."""
    return shared()


@pytest.fixture
def url() -> Iterator[str]:
    """The URL of a database that has the schema and nothing else."""
    taken = recycling.take()
    yield taken
    recycling.give_back(taken)


@pytest.fixture
async def database(url: str) -> AsyncIterator[PostgresDatabase]:
    """An open database."""
    opened = open_database(url)
    assert isinstance(opened, PostgresDatabase)
    yield opened
    await opened.close()


@pytest.fixture
def store(database: PostgresDatabase) -> Store:
    """A store to drive by hand."""
    return Store(database=database)


@pytest.fixture
async def pair(url: str, tmp_path: Path) -> AsyncIterator[Pair]:
    """Two servers on one database, in the test's own event loop."""
    async with paired(url, tmp_path) as servers:
        yield servers
