"""Server-made ids."""

from ulid import ULID


def new_ulid() -> str:
    """A new ULID in lower case."""
    return str(ULID()).lower()
