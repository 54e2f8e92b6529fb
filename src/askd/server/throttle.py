"""Slows whoever presents bad credentials, by address. Good ones are never slowed, so nobody can lock out another."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable

#: Failures of one address that cost nothing, and the seconds after which they are forgotten.
FREE = 5
MEMORY = 60.0
#: Seconds that a failure is held back at most. It doubles from a twentieth with every failure.
LONGEST = 2.0
FIRST = 0.05
#: Addresses remembered, and failures held back at once; more are answered at once rather than piled up.
ADDRESSES = 4096
HELD = 512


class Throttle:
    """Holds back the refusals of addresses that fail again and again."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self._held = 0

    async def hold(self, address: str) -> None:
        """Note a failure of an address and wait as long as it deserves."""
        seconds = self._note(address)
        if not seconds or self._held >= HELD:
            return
        self._held += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self._held -= 1

    def _note(self, address: str) -> float:
        now = self._monotonic()
        count, last = self._failures.pop(address, (0, now))
        count = 1 if now - last > MEMORY else count + 1
        self._failures[address] = count, now
        if len(self._failures) > ADDRESSES:
            self._failures.popitem(last=False)
        return min(LONGEST, FIRST * 2.0 ** min(count - FREE, 10)) if count > FREE else 0.0
