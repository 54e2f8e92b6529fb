"""Fixtures of the service's suite, which runs on every database, too."""

from tests.service.services import service
from tests.store.databases import backend, database, store, template, url

__all__ = ["backend", "database", "service", "store", "template", "url"]
