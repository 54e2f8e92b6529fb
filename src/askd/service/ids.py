"""Server-made ids."""

import os
import time

_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_PAIRS = [first + second for first in _DIGITS for second in _DIGITS]
_SHIFTS = range(120, -1, -10)


def new_ulid() -> str:
    """A new ULID (48 bits of UTC milliseconds, 80 random ones) in lower case. Made here since this takes 2 µs of each
    change, and a library's general one ten."""
    number = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10))
    return "".join([_PAIRS[number >> shift & 1023] for shift in _SHIFTS])
