"""How often a workspace may consult a provider (CONTRACT section 8). Each server counts for itself."""

import json
import time
from functools import cached_property
from typing import TYPE_CHECKING

from askd.domain.errors import AskdError, Code

if TYPE_CHECKING:
    from limits.strategies import MovingWindowRateLimiter


class MovingRates:
    """At most so many consultations in any span of so many seconds, for each workspace and provider."""

    def __init__(self, amount: int, seconds: int) -> None:
        self._amount = amount
        self._seconds = seconds

    @cached_property
    def _limiter(self) -> "MovingWindowRateLimiter":
        from limits.storage import MemoryStorage
        from limits.strategies import MovingWindowRateLimiter

        return MovingWindowRateLimiter(MemoryStorage())

    def take(self, workspace_id: str, provider_id: str) -> None:
        """Count a consultation. Raises AskdError (rate_limited) where it has to wait, and for how long."""
        from limits import RateLimitItemPerSecond

        rate = RateLimitItemPerSecond(self._amount, self._seconds)
        who = json.dumps([workspace_id, provider_id])  # ids may hold any separator
        if self._limiter.hit(rate, who):
            return
        wait = max(0.001, self._limiter.get_window_stats(rate, who).reset_time - time.time())
        message = f"consulted too often: {self._amount} times in {self._seconds} s; wait {wait:.1f} s"
        raise AskdError(Code.RATE_LIMITED, message, retry_after=wait)
