"""`python -m bench`: measures, prints a table, and records the figures or compares them with the recorded ones.

Every figure is a ratio to something bare that is measured in the same run, in turns, by the same client. Servers and
clients are processes of their own on the loopback interface; all are ended and all files removed, whatever happens.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import document, h2load, processes, regressions, report
from bench.plan import BRIEF, FULL, QUICK, Plan
from bench.series import Series
from bench.suite import CHECKED, MEASURES

BUSY = 0.5  # load average from which on other programs disturb the figures


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures askd against bare gRPC.")
    add_measuring(parser)
    add_showing(parser)
    options = parser.parse_args(arguments)
    if options.record and (options.only or options.quick or options.check):
        parser.error("what is recorded is one whole run")
    return options


def add_measuring(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--only", metavar="NAME", action="append", choices=list(MEASURES), help=", ".join(MEASURES))
    parser.add_argument("--quick", action="store_true", help="a smoke run of some seconds, whose figures mean little")
    parser.add_argument("--stored", metavar="N", type=int, help=f"asks in the large store (default {FULL.stored:,})")
    parser.add_argument(
        "--question", choices=("text", "choice"), default=FULL.question, help="kind of the 1 KB question"
    )
    parser.add_argument("--folder", metavar="DIR", help="where data lies meanwhile; a disk, or commits cost nothing")


def add_showing(parser: argparse.ArgumentParser) -> None:
    recorded = document.RECORDED.name
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every figure there")
    parser.add_argument("--record", action="store_true", help=f"write every figure to bench/{recorded}")
    parser.add_argument("--markdown", action="store_true", help="print the table for BENCHMARKS.md")
    parser.add_argument("--show", metavar="FILE", type=Path, help="measure nothing: show what was written there")
    parser.add_argument(
        "--check", action="store_true",
        help=f"fail where a ratio is worse than in bench/{recorded}, beyond its noise; by default {', '.join(CHECKED)}",
    )  # fmt: skip


def plan_of(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else BRIEF if options.check else FULL
    return replace(plan, stored=options.stored or plan.stored, question=options.question)


def run(names: Sequence[str], plan: Plan, parent: str | None) -> tuple[dict[str, list[Series]], list[str]]:
    """The figures by measure, and those measures that failed: one failure does not cost the figures of the others."""
    figures: dict[str, list[Series]] = {}
    failed: list[str] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        with processes.folder(parent) as place:
            try:
                figures[name] = MEASURES[name](plan, place)
            except processes.BenchError as error:
                print(error, *processes.logs(place), sep="\n", file=sys.stderr)
                failed.append(name)
    return figures, failed


def flat(figures: dict[str, list[Series]]) -> list[Series]:
    return [series for found in figures.values() for series in found]


def check(figures: dict[str, list[Series]], plan: Plan, parent: str | None) -> str:
    """Compares with the record, and says what is wrong. What seems worse is measured once more, since half of all
    surprises are another program's: it fails where it is worse both times."""
    recorded = {series.name: series for series in document.load(document.RECORDED)}
    first = regressions.compare(flat(figures), recorded)
    report.show_comparisons(first)
    if not first:
        return "nothing that was recorded at this size was measured"
    suspects = {comparison.fresh.name for comparison in first if comparison.regressed}
    doubtful = [name for name, found in figures.items() if any(series.name in suspects for series in found)]
    if not doubtful:
        return ""
    again, failed = run(doubtful, plan, parent)
    second = [entry for entry in regressions.compare(flat(again), recorded) if entry.fresh.name in suspects]
    report.show_comparisons(second)
    worse = [comparison.fresh.name for comparison in second if comparison.regressed] + failed
    return f"worse than recorded: {', '.join(worse)}" if worse else ""


def show(figures: list[Series], options: argparse.Namespace, *, smoke: bool) -> None:
    if options.markdown:
        print(report.markdown(figures), end="")
    else:
        report.show(figures, smoke=smoke)


def warn() -> None:
    busy = os.getloadavg()[0]
    if busy > BUSY:
        print(f"other programs keep this machine busy (load {busy:.1f}): expect a wide spread", file=sys.stderr)
    if h2load.PROGRAM is None:
        print(h2load.ABSENT, file=sys.stderr)


def main(arguments: Sequence[str]) -> None:
    # A terminated run ends its processes and removes its files too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = parse(arguments)
    plan = plan_of(options)
    if options.show:
        show(document.load(options.show), options, smoke=False)
        return
    warn()
    figures, failed = run(options.only or (CHECKED if options.check else list(MEASURES)), plan, options.folder)
    show(flat(figures), options, smoke=plan.smoke)
    for path in filter(None, (options.json, document.RECORDED if options.record else None)):
        path.write_text(document.dump(flat(figures), plan))
    wrong = [f"failed: {', '.join(failed)}"] if failed else []
    if options.check and (worse := check(figures, plan, options.folder)):
        wrong.append(worse)
    if wrong:
        sys.exit("; ".join(wrong))


if __name__ == "__main__":
    main(sys.argv[1:])
