"""A PgBouncer in transaction mode in front of a PostgreSQL server, on a Unix socket."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import make_url
from tests.postgres.cluster import NOBODY, READY, Cluster, unprivileged

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
#: Connections to a database: fewer than one server has.
CONNECTIONS = 3


@contextmanager
def pgbouncer(cluster: Cluster) -> Iterator[Path]:
    """The folder of the socket of a PgBouncer that runs."""
    assert PROGRAM is not None
    folder = Path(tempfile.mkdtemp(prefix="pgbouncer-", dir=cluster.folder))
    if os.geteuid() == 0:
        os.chown(folder, NOBODY, NOBODY)
    (folder / "pgbouncer.ini").write_text(
        f"[databases]\n* = host={cluster.folder} user=askd\n"
        f"[pgbouncer]\nlisten_addr =\nunix_socket_dir = {folder}\nauth_type = any\npool_mode = transaction\n"
        f"default_pool_size = {CONNECTIONS}\n"
    )
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            unprivileged(PROGRAM, str(folder / "pgbouncer.ini")), stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
    try:
        _wait_for(folder / ".s.PGSQL.6432", process)
        yield folder
    finally:
        process.terminate()
        process.wait(READY)


def _wait_for(socket: Path, process: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + READY
    while not socket.exists():
        assert process.poll() is None, (socket.parent / "log").read_text()
        assert time.monotonic() < until, "not ready in time"
        time.sleep(0.01)


def through(folder: Path, url: str) -> str:
    """The URL of a database through PgBouncer, as the README says."""
    query = {"host": str(folder), "port": "6432", "prepared_statement_cache_size": "0"}
    return make_url(url).update_query_dict(query).render_as_string(hide_password=False)
