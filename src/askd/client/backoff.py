"""How long to pause before trying again."""

import random
from dataclasses import dataclass

FIRST = 0.1  # seconds, about, before the first retry
FACTOR = 2.0
CAP = 5.0  # seconds at most before any retry
_DOUBLINGS = 10  # beyond the cap; bounds the power


@dataclass(slots=True)
class Backoff:
    """Pauses that grow exponentially up to a cap, each anywhere between half and all of its time, so that many clients
    do not return together."""

    failures: int = 0

    def reset(self) -> None:
        """Begin again after a success."""
        self.failures = 0

    def pause(self, at_least: float | None = None) -> float:
        """The seconds to pause after one more failure: a pause beyond what the server asked for, where it did."""
        longest = min(CAP, FIRST * FACTOR ** min(self.failures, _DOUBLINGS))
        self.failures += 1
        return (at_least or 0.0) + longest * random.uniform(0.5, 1.0)  # noqa: S311  # jitter, no secret
