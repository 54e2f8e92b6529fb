"""The figures of one measure, taken in pairs, and what they should be."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One figure of askd and of what it is measured against, taken in turns: `base[n]` and `askd[n]` are a pair."""

    name: str
    unit: str
    against: str
    base: Sequence[float]
    askd: Sequence[float]
    size: int = 0
    """How many watchers, streams or stored asks it was measured with, where the figure depends on that."""
    note: str = ""

    @property
    def ratios(self) -> list[float]:
        return [ours / theirs for ours, theirs in zip(self.askd, self.base, strict=True)]

    @property
    def ratio(self) -> float:
        """The median of the pairs' ratios: what drifts from pair to pair does not touch it."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the ratios: half of them lie between."""
        if len(self.ratios) < 2:
            return self.ratio, self.ratio
        lower, _, upper = quantiles(self.ratios, n=4, method="inclusive")
        return lower, upper

    @property
    def more_is_better(self) -> bool:
        """Whether it counts work in a time; else it is a time or a size."""
        return self.unit.endswith("/s")


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What a figure should be: the ratio, or askd's own figure where `absolute`."""

    side: Literal["at_least", "at_most"]
    target: float
    stretch: float | None = None
    """What it may become later."""
    absolute: bool = False

    def holds(self, series: Series) -> bool:
        return self._reaches(series, self.target)

    def verdict(self, series: Series) -> str:
        """In a word or two."""
        if not self.holds(series):
            return "MISSED"
        return "stretch met" if self.stretch is not None and self._reaches(series, self.stretch) else "met"

    def _reaches(self, series: Series, limit: float) -> bool:
        value = median(series.askd) if self.absolute else series.ratio
        return value >= limit if self.side == "at_least" else value <= limit


def at_least(target: float, stretch: float) -> Bound:
    return Bound(side="at_least", target=target, stretch=stretch)


def at_most(target: float, stretch: float | None = None, *, absolute: bool = False) -> Bound:
    return Bound(side="at_most", target=target, stretch=stretch, absolute=absolute)


def join(parts: Iterable[Series]) -> Series:
    """One series of several that were taken one after the other."""
    parts = list(parts)
    first = parts[0]
    return Series(
        name=first.name,
        unit=first.unit,
        against=first.against,
        base=[figure for part in parts for figure in part.base],
        askd=[figure for part in parts for figure in part.askd],
        size=first.size,
        note=first.note,
    )
