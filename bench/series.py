"""The figures of one measure, taken in pairs, and what they should be."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True, slots=True)
class Series:
    """One figure of askd and of what it is measured against, taken in turns: `base[n]` and `askd[n]` are a pair."""

    name: str
    unit: str
    against: str
    base: Sequence[float]
    askd: Sequence[float]
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


@dataclass(frozen=True, kw_only=True, slots=True)
class Bound:
    """What a figure should be: the ratio, or askd's own figure where `absolute`."""

    side: Literal["at_least", "at_most"]
    target: float
    stretch: float | None = None
    """What it may become later."""
    absolute: bool = False

    def holds(self, series: Series) -> bool:
        value = median(series.askd) if self.absolute else series.ratio
        return value >= self.target if self.side == "at_least" else value <= self.target


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
        note=first.note,
    )


def describe(series: Series, bound: Bound | None) -> dict[str, Any]:
    """The series for machines: the ratios first, every figure behind them."""
    return {
        "name": series.name,
        "against": series.against,
        "ratio": series.ratio,
        "ratio_quartiles": list(series.spread),
        "unit": series.unit,
        "askd_median": median(series.askd),
        "base_median": median(series.base),
        "askd": list(series.askd),
        "base": list(series.base),
        "note": series.note,
        "bound": describe_bound(bound, series) if bound else None,
    }


def describe_bound(bound: Bound, series: Series) -> dict[str, Any]:
    return {
        "of": "askd_median" if bound.absolute else "ratio",
        "side": bound.side,
        "target": bound.target,
        "stretch": bound.stretch,
        "met": bound.holds(series),
    }
