"""The bare durable write: one row, one transaction, one fsync, by the synchronous driver on the thread that calls."""

import sqlite3
import time
from pathlib import Path
from typing import Self


class Commits:
    """A SQLite file with the durability of askd's: WAL and synchronous=FULL."""

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, body BLOB NOT NULL)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def commit(self, body: bytes) -> float:
        """Seconds that storing one row took. A statement outside a transaction is one of its own."""
        begin = time.perf_counter()
        self._connection.execute("INSERT INTO rows (body) VALUES (?)", (body,))
        return time.perf_counter() - begin
