"""Looks at whether a database takes changes."""

from sqlalchemy import Connection

from askd.store.statements import upsert
from askd.store.tables import probes


def probe(connection: Connection) -> None:
    """Take the lock of a change and change nothing: costs no disk write."""
    connection.exec_driver_sql("SELECT 1")


def probe_by_writing(connection: Connection, now: int) -> None:
    """Change one row, as a full disk refuses nothing less."""
    upsert(connection, probes, [{"id": 1, "probed_at": now}])
