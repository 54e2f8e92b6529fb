"""Shows figures to people: as a table of the terminal's, or as one for a Markdown page."""

import sys
from collections.abc import Sequence
from statistics import median

from rich.console import Console
from rich.table import Table

from bench.regressions import Comparison
from bench.series import Bound, Series
from bench.targets import BOUNDS

FILE_WIDTH = 160  # columns
COLUMNS = ("measure", "ratio (quartiles)", "target (stretch)", "askd", "against")
CHECKED = ("measure", "ratio", "recorded (noise)", "")
METHOD = "A ratio is askd's figure to the other, the median of pairs taken in turns; the spread, their quartiles."
SMOKE = "A smoke run: it shows that every measure works, its figures mean little."

Row = tuple[str, ...]


def rows(figures: Sequence[Series]) -> list[Row]:
    return [row(series, BOUNDS.get(series.name)) for series in figures]


def row(series: Series, bound: Bound | None) -> Row:
    lower, upper = series.spread
    return (
        series.name,
        f"{series.ratio:.2f} ({lower:.2f}–{upper:.2f})",
        target(bound, series) if bound else "",
        amount(median(series.askd), series.unit),
        f"{amount(median(series.base), series.unit)}, {series.against}",
    )


def target(bound: Bound, series: Series) -> str:
    sign = "≥" if bound.side == "at_least" else "≤"
    unit = f" {series.unit}" if bound.absolute else ""
    stretch = f" ({bound.stretch:g})" if bound.stretch is not None else ""
    return f"{sign} {bound.target:g}{unit}{stretch} {bound.verdict(series)}"


def amount(figure: float, unit: str) -> str:
    digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
    return f"{figure:,.{digits}f} {unit}"


def show(figures: Sequence[Series], *, smoke: bool) -> None:
    print_table(COLUMNS, rows(figures))
    for series in figures:
        if series.note:
            print(f"{series.name}: {series.note}")
    print(SMOKE if smoke else METHOD)


def markdown(figures: Sequence[Series]) -> str:
    """The same table for BENCHMARKS.md."""
    lines = [COLUMNS, ("---",) * len(COLUMNS), *rows(figures)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines).replace("MISSED", "**missed**")


def show_comparisons(comparisons: Sequence[Comparison]) -> None:
    print_table(CHECKED, [compared(comparison) for comparison in comparisons])


def compared(comparison: Comparison) -> Row:
    fresh, recorded = comparison.fresh, comparison.recorded
    verdict = "WORSE" if comparison.regressed else ""
    return fresh.name, f"{fresh.ratio:.2f}", f"{recorded.ratio:.2f} ({comparison.noise:.2f})", verdict


def print_table(columns: Row, lines: Sequence[Row]) -> None:
    shown = Table(*columns, box=None, pad_edge=False)
    for line in lines:
        shown.add_row(*line)
    # A file has no width of its own to fit the table into.
    Console(width=None if sys.stdout.isatty() else FILE_WIDTH, highlight=False).print(shown)
