"""Figures: written, read back, shown, and judged."""

from pathlib import Path

import pytest
from bench import document, report
from bench.h2load import rate_in
from bench.plan import QUICK
from bench.processes import BenchError
from bench.series import Series, at_least, at_most

PAGE = Path(document.__file__).parents[1] / "BENCHMARKS.md"
SERIES = Series(name="ask64", unit="calls/s", against="bare", base=[4.0, 4.0], askd=[2.0, 3.0], size=7, note="n")
H2LOAD = """
finished in 2.00s, 1257.00 req/s, 1.38MB/s
requests: 2514 total, 2578 started, {done} done, {succeeded} succeeded, 0 failed, 0 errored, 0 timeout
traffic: 2.76MB (2892883) total, 7.44KB (7617) headers (space savings 96.26%), 2.64MB ({data}) data
"""


def test_what_was_written_reads_back(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(document.dump([SERIES], QUICK))
    assert document.load(path) == [SERIES]


def test_the_median_of_the_pairs_ratios_is_quoted_with_their_quartiles() -> None:
    assert (SERIES.ratio, SERIES.spread) == (0.625, (0.5625, 0.6875))


@pytest.mark.parametrize(
    ("target", "stretch", "verdict"), [(0.7, 0.8, "MISSED"), (0.6, 0.8, "met"), (0.5, 0.6, "stretch met")]
)
def test_a_target_is_missed_or_met_or_its_stretch_is(target: float, stretch: float, verdict: str) -> None:
    assert at_least(target, stretch).verdict(SERIES) == verdict


def test_an_absolute_target_is_of_askds_own_figure() -> None:
    assert at_most(2.5, absolute=True).verdict(SERIES) == "met"
    assert at_most(2.4, absolute=True).verdict(SERIES) == "MISSED"


def test_the_documented_table_is_the_recorded_run() -> None:
    assert report.markdown(document.load(document.RECORDED)) in PAGE.read_text()


def test_the_rate_is_read_from_what_h2load_writes() -> None:
    assert rate_in(H2LOAD.format(done=2514, succeeded=2514, data=2769584), 1024) == 1257.0


@pytest.mark.parametrize(
    "output",
    [
        "unable to connect",
        H2LOAD.format(done=2514, succeeded=2513, data=2769584),
        H2LOAD.format(done=2514, succeeded=2514, data=7617),  # errors of gRPC: HTTP 200 without data
    ],
)
def test_calls_that_failed_are_no_figures(output: str) -> None:
    with pytest.raises(BenchError):
        rate_in(output, 1024)
