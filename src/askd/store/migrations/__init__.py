"""The schema's history, one for every database."""

from pathlib import Path

from sqlalchemy import Connection, inspect, text

from askd.store.database import StartError

#: The newest schema. A test compares it with the last file under versions/.
HEAD = "0001"


def upgrade(connection: Connection) -> None:
    """Bring the schema up to date. Raises StartError where the schema is newer than the program."""
    current = _current(connection)
    connection.rollback()
    if current == HEAD:
        return  # the usual start does without Alembic
    if current > HEAD:
        raise StartError(f"the database is newer than this program (schema {current}, known up to {HEAD})")
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _current(connection: Connection) -> str:
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return connection.scalar(text("SELECT version_num FROM alembic_version")) or ""
