"""Shows figures: a table for people, JSON for machines."""

import json
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from importlib.metadata import version
from statistics import median
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.plan import Plan
from bench.series import Bound, Series, describe
from bench.suite import BOUNDS

PACKAGES = ("askd", "grpcio", "protobuf", "sqlalchemy", "uvloop")
FILE_WIDTH = 140  # columns
METHOD = "A ratio is askd's figure to the other, the median of pairs taken in turns; the spread, their quartiles."
SMOKE = "A smoke run: it shows that every measure works, its figures mean little."


def table(figures: Sequence[Series]) -> Table:
    columns = ("measure", "ratio", "spread", "target (stretch)", "askd", "against")
    shown = Table(*columns, box=None, pad_edge=False)
    for series in figures:
        shown.add_row(*row(series, BOUNDS.get(series.name)))
    return shown


def row(series: Series, bound: Bound | None) -> tuple[str, ...]:
    lower, upper = series.spread
    return (
        series.name,
        f"{series.ratio:.2f}",
        f"{lower:.2f}–{upper:.2f}",
        target(bound, series) if bound else "",
        amount(median(series.askd), series.unit),
        f"{amount(median(series.base), series.unit)}, {series.against}",
    )


def target(bound: Bound, series: Series) -> str:
    sign = "≥" if bound.side == "at_least" else "≤"
    unit = f" {series.unit}" if bound.absolute else ""
    stretch = f" ({bound.stretch:g})" if bound.stretch is not None else ""
    return f"{sign} {bound.target:g}{unit}{stretch} {'met' if bound.holds(series) else 'MISSED'}"


def amount(figure: float, unit: str) -> str:
    digits = 0 if figure >= 100 else 1 if figure >= 10 else 2
    return f"{figure:,.{digits}f} {unit}"


def show(figures: Sequence[Series], plan: Plan) -> None:
    # A file has no width of its own to fit the table into.
    console = Console(width=None if sys.stdout.isatty() else FILE_WIDTH, highlight=False)
    console.print(table(figures))
    for series in figures:
        if series.note:
            console.print(f"{series.name}: {series.note}")
    console.print(SMOKE if plan.smoke else METHOD)


def document(figures: Sequence[Series], plan: Plan) -> str:
    """The JSON of a run."""
    content: dict[str, Any] = {
        "figures": [describe(series, BOUNDS.get(series.name)) for series in figures],
        "plan": plan.describe(),
        "versions": {name: version(name) for name in PACKAGES}
        | {"python": platform.python_version(), "sqlite": sqlite3.sqlite_version},
        "processors": os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    return json.dumps(content, indent=2)
