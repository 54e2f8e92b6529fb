"""A run's figures as JSON, for machines and to compare later runs with."""

import json
import os
import platform
import sqlite3
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

from bench.plan import Plan
from bench.series import Bound, Series
from bench.targets import BOUNDS

PACKAGES = ("askd", "grpcio", "protobuf", "sqlalchemy", "uvloop")
RECORDED = Path(__file__).with_name("recorded.json")
DIGITS = 4  # of a figure; what lies behind them is noise


def dump(figures: Sequence[Series], plan: Plan) -> str:
    """The document of a run."""
    content = {"figures": [describe(series) for series in figures], "plan": plan.describe(), "machine": machine()}
    return json.dumps(content, indent=1) + "\n"


def load(path: Path) -> list[Series]:
    """The figures of a document."""
    figures = json.loads(path.read_text())["figures"]
    return [Series(**{name: figure[name] for name in Series.__slots__}) for figure in figures]


def machine() -> dict[str, Any]:
    """Where it was measured."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processors": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
    } | {name: version(name) for name in PACKAGES}


def describe(series: Series) -> dict[str, Any]:
    """A series: the ratio first, every figure behind it."""
    bound = BOUNDS.get(series.name)
    return {
        "name": series.name,
        "ratio": rounded(series.ratio),
        "ratio_quartiles": [rounded(quartile) for quartile in series.spread],
        "bound": describe_bound(bound, series) if bound else None,
        "unit": series.unit,
        "against": series.against,
        "size": series.size,
        "askd_median": rounded(median(series.askd)),
        "base_median": rounded(median(series.base)),
        "askd": [rounded(figure) for figure in series.askd],
        "base": [rounded(figure) for figure in series.base],
        "note": series.note,
    }


def describe_bound(bound: Bound, series: Series) -> dict[str, Any]:
    return {
        "of": "askd_median" if bound.absolute else "ratio",
        "side": bound.side,
        "target": bound.target,
        "stretch": bound.stretch,
        "met": bound.holds(series),
    }


def rounded(figure: float) -> float:
    return float(f"{figure:.{DIGITS}g}")
