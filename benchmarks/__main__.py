"""All benchmarks, one after the other: ``python -m benchmarks [--quick]``, or ``make bench``."""

import argparse

from benchmarks import (
    bench_collections,
    bench_evaluate,
    bench_methods,
    bench_scan,
    bench_training,
)
from benchmarks.measure import cpu_features, print_rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, no verdicts")
    quick = parser.parse_args().quick
    print("CPU:", ", ".join(f"{n} {'yes' if has else 'no'}" for n, has in cpu_features().items()))
    print_rows("Exact k nearest codes", bench_scan.rows(quick))
    print_rows("Collections in a folder", bench_collections.rows(quick))
    print_rows("Evaluation", bench_evaluate.rows(quick))
    print_rows("Training and encoding", bench_training.rows(quick))
    print_rows("Growth of methods with the number of pairs", bench_methods.rows(quick))


if __name__ == "__main__":
    main()
