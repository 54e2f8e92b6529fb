"""What `make bench-check` calls a regression."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from bench import __main__ as program
from bench import document
from bench.plan import QUICK
from bench.regressions import Comparison, compare
from bench.series import Series

RATES = (0.5, 0.6, 0.7)  # the median is 0.6, the quartiles 0.55 and 0.65
TIMES = (1.9, 2.0, 2.1)
STEADY = (1.0, 1.0, 1.0)


def series(ratios: Sequence[float], unit: str = "calls/s", size: int = 0, name: str = "ask64") -> Series:
    """A measure whose pairs have these ratios."""
    return Series(name=name, unit=unit, against="bare", base=[1.0] * len(ratios), askd=list(ratios), size=size)


def regressed(fresh: float, recorded: Series) -> bool:
    return Comparison(fresh=series([fresh], recorded.unit), recorded=recorded).regressed


@pytest.mark.parametrize(("rate", "worse"), [(0.9, False), (0.6, False), (0.51, False), (0.49, True)])
def test_a_rate_is_worse_when_it_lies_below_the_recorded_one_by_more_than_its_quartiles_lie_apart(
    rate: float, worse: bool
) -> None:
    assert regressed(rate, series(RATES)) is worse


@pytest.mark.parametrize(("took", "worse"), [(1.0, False), (2.0, False), (2.09, False), (2.11, True)])
def test_a_time_is_worse_when_it_lies_above(took: float, worse: bool) -> None:
    assert regressed(took, series(TIMES, "ms")) is worse


@pytest.mark.parametrize(("rate", "worse"), [(0.96, False), (0.94, True)])
def test_pairs_that_agree_by_chance_do_not_make_every_run_a_regression(rate: float, worse: bool) -> None:
    assert regressed(rate, series(STEADY)) is worse


def test_figures_at_another_size_or_of_nothing_recorded_are_not_compared() -> None:
    recorded = {"fanout": series(RATES, size=1000), "ask64": series(RATES)}
    fresh = [series(RATES, size=50, name="fanout"), series(RATES), series(RATES, name="new")]
    assert [comparison.fresh.name for comparison in compare(fresh, recorded)] == ["ask64"]


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record in place of the committed one."""
    path = tmp_path / "recorded.json"
    path.write_text(document.dump([series(RATES)], QUICK))
    monkeypatch.setattr(document, "RECORDED", path)


def check(monkeypatch: pytest.MonkeyPatch, first: float, second: float | None = None) -> str:
    """What the check says when these are measured, the second where it measures again."""

    def again(names: Sequence[str], *_: object) -> tuple[dict[str, list[Series]], list[str]]:
        assert second is not None, "it measured again without need"
        return {name: [series([second])] for name in names}, []

    monkeypatch.setattr(program, "run", again)
    return program.check({"ask64": [series([first])]}, QUICK, None)


@pytest.mark.usefixtures("recorded")
def test_a_check_measures_again_what_seems_worse_and_fails_only_where_it_is_worse_both_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert check(monkeypatch, 0.6) == ""
    assert check(monkeypatch, 0.3, 0.6) == ""
    assert check(monkeypatch, 0.3, 0.31) == "worse than recorded: ask64"


@pytest.mark.usefixtures("recorded")
def test_a_check_that_compared_nothing_fails() -> None:
    assert program.check({"fanout": [series([1.0], name="fanout")]}, QUICK, None).startswith("nothing")
