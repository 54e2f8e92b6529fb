"""Fixtures of the store's suite, which every database runs."""

from tests.store.databases import backend, database, store, template, url

__all__ = ["backend", "database", "store", "template", "url"]
