"""`python -m bench` as it is run, in its smoke form."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from bench import document
from bench.processes import ROOT
from bench.targets import BOUNDS

#: Measured only where h2load is installed.
OPTIONAL = {name for name in BOUNDS if name.endswith("_h2load")}


@dataclass(frozen=True, kw_only=True)
class Finished:
    """What the program wrote, and its exit code."""

    code: int
    output: str
    errors: str


def bench(*arguments: str) -> Finished:
    command, pipe = [sys.executable, "-m", "bench", *arguments], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            output, errors = process.communicate()
        finally:
            process.terminate()  # where the test ran out of time; a kill would leave the servers behind
    return Finished(code=process.returncode, output=output, errors=errors)


@pytest.mark.timeout(180)  # it takes 6 s where nothing else runs
def test_a_selected_smoke_run_writes_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    done = bench("--quick", "--only", "answering", "--json", str(path))
    assert done.code == 0, done.errors
    (figure,) = document.load(path)
    assert figure.name == "answer_p99"
    assert min(figure.ratios) >= 1
    assert "answer_p99" in done.output


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_every_target_is_measured(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    done = bench("--quick", "--json", str(path))
    assert done.code == 0, done.errors
    assert {figure.name for figure in document.load(path)} >= BOUNDS.keys() - OPTIONAL


def test_every_target_has_a_row_in_the_recorded_run() -> None:
    assert {figure.name for figure in document.load(document.RECORDED)} >= BOUNDS.keys() - OPTIONAL


def test_a_written_run_is_shown_as_the_page_has_it() -> None:
    done = bench("--show", str(document.RECORDED), "--markdown")
    assert done.output in (ROOT / "BENCHMARKS.md").read_text()
    assert done.output.startswith("| measure | ratio (quartiles) |")


def test_a_part_of_a_run_is_not_recorded() -> None:
    done = bench("--record", "--only", "ask64")
    assert done.code == 2
    assert "one whole run" in done.errors
