"""Run all benchmarks: ``python -m benchmarks [--quick]``, or ``make bench``.

The last table lists every measurement with a target. ``--targets`` runs only those.
"""

import argparse
from typing import Any

from benchmarks import (
    bench_collections,
    bench_evaluate,
    bench_methods,
    bench_scan,
    bench_service,
    bench_start,
    bench_training,
)
from benchmarks.measure import Row, cpu_features, print_rows

BENCHES: dict[str, Any] = {
    "Exact k nearest codes": bench_scan,
    "Collections in a folder": bench_collections,
    "Search service": bench_service,
    "Start of the command": bench_start,
    "Evaluation": bench_evaluate,
    "Training and encoding": bench_training,
    "Growth of methods with the number of pairs": bench_methods,
}
WITH_TARGETS = (bench_scan, bench_evaluate, bench_training)
"""Benchmarks of ``--targets``; those of collections have targets too but take long."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="use smaller sizes and no verdicts")
    parser.add_argument("--targets", action="store_true", help="run only benchmarks with a target")
    arguments = parser.parse_args()
    print("CPU:", ", ".join(f"{n} {'yes' if has else 'no'}" for n, has in cpu_features().items()))
    measured: list[Row] = []
    for title, bench in BENCHES.items():
        if arguments.targets and bench not in WITH_TARGETS:
            continue
        only = {"targets_only": arguments.targets} if bench in WITH_TARGETS else {}
        rows = bench.rows(arguments.quick, **only)
        if not arguments.targets:
            print_rows(title, rows)
        measured += rows
    if not arguments.quick or arguments.targets:
        shown = [row for row in measured if row.verdict or arguments.quick]
        print_rows("Targets", shown)


if __name__ == "__main__":
    main()
