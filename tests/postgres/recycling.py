"""Databases that one test after another uses: emptying one takes less long than making one."""

from tests.postgres.cluster import Cluster, shared

from askd.store.migrations import upgrade
from askd.store.tables import metadata

_END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_EMPTY = [f"DELETE FROM {table.name}" for table in metadata.sorted_tables]

_free: list[str] = []


def take() -> str:
    """The URL of a database that has the schema and nothing else."""
    return _free.pop() if _free else _create(shared())


def _create(cluster: Cluster) -> str:
    url = cluster.create()
    cluster.run(url, upgrade)
    return url


def give_back(url: str) -> None:
    """Let another test have a database."""
    shared().execute(_END_OTHERS, *_EMPTY, url=url)
    _free.append(url)
