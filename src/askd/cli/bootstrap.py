"""`askd keys bootstrap`: another admin key, made on the server's machine (CONTRACT section 9)."""

import asyncio
import os
from pathlib import Path
from typing import Any

from askd.config import ConfigError, Settings, load


class BootstrapError(Exception):
    """Why no key could be made, in one line."""


def bootstrap(data_dir: Path | None, database: str | None, config: Path | None) -> Path:
    """Make a key that is admin everywhere and write its credential to admin.key. A server may be running on the same
    database; a database that was never used is set up first. Raises BootstrapError."""
    options: dict[str, Any] = {"data_dir": data_dir, "database": database and {"url": database}, "config": config}
    try:
        settings = load({name: value for name, value in options.items() if value is not None}, os.environ)
    except ConfigError as error:
        raise BootstrapError(str(error)) from None
    os.umask(0o077)
    asyncio.run(_insert(settings))
    return settings.admin_key


async def _insert(settings: Settings) -> None:
    from sqlalchemy.exc import SQLAlchemyError

    from askd.server.app import utc_microseconds
    from askd.service.keys import insert_admin_key
    from askd.store.database import StartError, open_database

    try:
        settings.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        database = open_database(settings.database_url, beside_server=True)
        try:
            await database.check()
            now = utc_microseconds()
            await database.write(lambda connection: insert_admin_key(connection, settings.admin_key, "bootstrap", now))
        finally:
            await database.close()
    except StartError as error:
        raise BootstrapError(str(error)) from None
    except OSError as error:
        raise BootstrapError(f"{error.filename}: {error.strerror}") from None
    except SQLAlchemyError as error:
        raise BootstrapError(f"the database refused: {getattr(error, 'orig', None) or type(error).__name__}") from None
