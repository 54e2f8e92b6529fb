"""Compares a fresh run's ratios with the recorded ones."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from bench.series import Series

LEAST_NOISE = 0.05  # of a ratio: quartiles of few pairs may lie closer together by chance


@dataclass(frozen=True, kw_only=True, slots=True)
class Comparison:
    """A fresh figure and the recorded one of the same measure, taken at the same size."""

    fresh: Series
    recorded: Series

    @property
    def noise(self) -> float:
        """How far two runs of the same program may lie apart: the recorded quartiles' distance."""
        lower, upper = self.recorded.spread
        return max(upper - lower, LEAST_NOISE * self.recorded.ratio)

    @property
    def limit(self) -> float:
        """The worst ratio that is no regression."""
        return self.recorded.ratio - self.noise if self.fresh.more_is_better else self.recorded.ratio + self.noise

    @property
    def regressed(self) -> bool:
        return self.fresh.ratio < self.limit if self.fresh.more_is_better else self.fresh.ratio > self.limit


def compare(fresh: Sequence[Series], recorded: Mapping[str, Series]) -> list[Comparison]:
    """Those of the fresh figures that can be compared: a figure at another size is another figure."""
    return [
        Comparison(fresh=series, recorded=recorded[series.name])
        for series in fresh
        if series.name in recorded and recorded[series.name].size == series.size
    ]
