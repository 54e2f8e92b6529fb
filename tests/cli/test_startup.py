"""What the program does not load."""

import subprocess
import sys

_LISTING = """
import sys
from askd.cli import main
print(*sys.modules)
"""


def test_a_command_loads_neither_the_server_nor_what_it_does_not_use() -> None:
    loaded = subprocess.run([sys.executable, "-c", _LISTING], capture_output=True, text=True, check=True).stdout.split()
    heavy = {"grpc", "rich.console", "sqlalchemy", "alembic", "uvloop", "structlog", "fastapi", "pydantic_settings"}
    heavy |= {"askd.server", "askd.config", "askd.cli.serve", "askd.cli.gateway", "askd.cli.database"}
    assert heavy.isdisjoint(loaded)


def test_a_client_loads_no_server() -> None:
    code = "import sys, askd.client, askd.cli.views; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not [name for name in loaded if name.startswith(("askd.server", "askd.service", "askd.store", "sqlalchemy"))]
