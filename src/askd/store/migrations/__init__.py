"""The schema's history, one for every database."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from askd.store.database import StartError

#: The newest schema. A test compares it with the last file under versions/.
HEAD = "0001"

#: Names the lock that lets one program at a time upgrade a PostgreSQL database. Any number that nobody else takes.
_LOCK = 0x61736B64
#: Seconds that an upgrade waits for a lock: while it waits, whoever wants the same table waits behind it.
_PATIENCE = 10


def upgrade(connection: Connection) -> None:
    """Bring the schema up to date and commit. Raises StartError where the schema is newer than the program's."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
        connection.execute(text(f"SET LOCAL lock_timeout = '{_PATIENCE}s'"))
    current = _current(connection)
    _refuse_newer(current)
    if current < HEAD:
        _run_alembic(connection)  # the usual start does without
    connection.commit()


def _run_alembic(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def check(connection: Connection) -> None:
    """Raise StartError where the schema is not the program's."""
    current = _current(connection)
    _refuse_newer(current)
    if current < HEAD:
        what = f"has the schema {current}, this program needs {HEAD}" if current else "has no schema yet"
        raise StartError(f"the database {what}: run `askd db upgrade`")


def _refuse_newer(current: str) -> None:
    if current > HEAD:
        raise StartError(f"the database is newer than this program (schema {current}, known up to {HEAD})")


def _current(connection: Connection) -> str:
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return connection.scalar(text("SELECT version_num FROM alembic_version")) or ""
