"""Fixtures: what time and ends do, on every database."""

from tests.server.conftest import server

__all__ = ["server"]
