"""`python -m bench`: measures, prints a table, and with `--json FILE` writes the figures.

Every figure is a ratio to something bare that is measured in the same run, in turns, by the same client. Servers and
client are processes of their own on the loopback interface; all are ended and all files removed, whatever happens.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench import processes, report
from bench.plan import FULL, QUICK, Plan
from bench.series import Series
from bench.suite import MEASURES

BUSY = 0.5  # load average from which on other programs disturb the figures


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measures askd against bare gRPC.")
    parser.add_argument(
        "--only", metavar="NAME", action="append", choices=list(MEASURES), help=f"{', '.join(MEASURES)}"
    )
    parser.add_argument("--quick", action="store_true", help="a smoke run of some seconds, whose figures mean little")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write every figure there")
    parser.add_argument("--stored", metavar="N", type=int, help=f"asks in the large store (default {FULL.stored:,})")
    parser.add_argument(
        "--question", choices=("text", "choice"), default=FULL.question, help="kind of the 1 KB question"
    )
    parser.add_argument("--folder", metavar="DIR", help="where data lies meanwhile; a disk, or commits cost nothing")
    return parser.parse_args(arguments)


def plan_of(options: argparse.Namespace) -> Plan:
    plan = QUICK if options.quick else FULL
    return replace(plan, stored=options.stored or plan.stored, question=options.question)


def run(names: Sequence[str], plan: Plan, parent: str | None) -> tuple[list[Series], list[str]]:
    """The figures, and the names of the measures that failed: one failure does not cost the figures of the others."""
    figures: list[Series] = []
    failed: list[str] = []
    for name in names:
        print(f"measuring {name} …", file=sys.stderr, flush=True)
        try:
            with processes.folder(parent) as place:
                figures += MEASURES[name](plan, place)
        except processes.BenchError as error:
            print(error, file=sys.stderr)
            failed.append(name)
    return figures, failed


def main(arguments: Sequence[str]) -> None:
    # A terminated run ends its processes and removes its files too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    options = parse(arguments)
    plan = plan_of(options)
    busy = os.getloadavg()[0]
    if busy > BUSY:
        print(f"other programs keep this machine busy (load {busy:.1f}): expect a wide spread", file=sys.stderr)
    figures, failed = run(options.only or list(MEASURES), plan, options.folder)
    report.show(figures, plan)
    if options.json:
        options.json.write_text(report.document(figures, plan))
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(sys.argv[1:])
