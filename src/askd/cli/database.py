"""`askd db`: the database's schema, and moving to another database."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from askd.config import ConfigError, load

app = typer.Typer(no_args_is_help=True, help="Upgrade a database, or copy it to another.")

DataDir = Annotated[Path | None, typer.Option(help="The folder of the database and askd.toml.")]
Config = Annotated[Path | None, typer.Option(help="The file of settings. Default: askd.toml in the folder.")]


@app.command()
def upgrade(
    database: Annotated[str | None, typer.Option(help="The database's URL.")] = None,
    data_dir: DataDir = None,
    config: Config = None,
) -> None:
    """Bring the database's schema up to date. On SQLite the server does so at its start; on PostgreSQL this does."""
    options: dict[str, Any] = {"data_dir": data_dir, "config": config, "database": database and {"url": database}}
    try:
        settings = load({name: value for name, value in options.items() if value is not None}, os.environ)
    except ConfigError as error:
        _fail(str(error))
    from askd.store.migrations import HEAD

    _run(_upgrade(settings.database_url))
    print(f"the schema is {HEAD}")


@app.command()
def copy(
    source: Annotated[str, typer.Option("--from", metavar="URL", help="The database to copy.")],
    target: Annotated[str, typer.Option("--to", metavar="URL", help="The database to fill, which must be empty.")],
) -> None:
    """Copy a store, with ids and revisions, between SQLite and PostgreSQL. No server may run on the target, and none
    should run on the source: what it is asked during the copy stays behind."""
    from askd.store.copying import copy_store

    _run(copy_store(source, target, _report))


async def _upgrade(url: str) -> None:
    from askd.store.database import open_database

    database = open_database(url)
    try:
        await database.upgrade()
    finally:
        await database.close()


def _report(table: str, count: int) -> None:
    print(f"{table}: {count}")


def _run(work: Any) -> None:
    from askd.store.database import StartError

    os.umask(0o077)
    try:
        asyncio.run(work)
    except StartError as error:
        _fail(str(error))


def _fail(message: str) -> None:
    sys.stderr.write(f"askd: {message}\n")
    raise SystemExit(1)
