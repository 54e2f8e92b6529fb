"""Databases that one test after another uses: emptying one takes less long than making one."""

from sqlalchemy import make_url
from tests.postgres.cluster import Cluster, shared

from askd.store.migrations import upgrade
from askd.store.tables import metadata

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
    database = make_url(url).database
    shared().execute(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{database}'")
    shared().execute(*(f"DELETE FROM {table.name}" for table in metadata.sorted_tables), url=url)
    _free.append(url)
