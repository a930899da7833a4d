"""Methods side by side, tuned if wanted: ``python -m benchmarks.compare DATA``.

DATA is the name of a dataset, or a folder with a manifest (image, text, labels and split of each
photo) and a file of features, row i for line i. Every finished model is a line of the results
file, so that an interrupted run goes on where it stopped. Whatever the supervision, scores rest on
the labels. With ``--tune`` the settings in the grid of each method are compared first, at 32 bits
with seed 0: validation items ask, training items answer.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed, parallel_config

from benchmarks.cells import Cell, Work, line_name, measure, one_cell, validate
from corrhash.datasets.supervision import CHOICES
from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.settings import parse_params
from corrhash.experiments.tuning import TUNING_BITS, configurations
from corrhash.methods import METHODS


def main() -> None:
    started = time.perf_counter()
    arguments = read_arguments()
    params = {name: parse_params(arguments.set) for name in arguments.methods}
    if arguments.tune:
        params = tuned(arguments, params)
    wanted = [
        Cell(name, n_bits, seed, arguments.supervision, tuple(sorted(params[name].items())))
        for seed in arguments.seeds
        for name in arguments.methods
        for n_bits in arguments.bits
    ]
    finish(arguments, wanted, measure)
    print("\n".join(table(read_lines(arguments.out), wanted)))
    print(f"\n{(time.perf_counter() - started) / 60:.1f} minutes")


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", help="a folder of photos, or the name of a dataset")
    parser.add_argument("--features", default="features_efficientnet_lite0.npy")
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--tune", action="store_true", help="choose settings on validation first")
    parser.add_argument("--set", nargs="+", default=[], help="settings, as within=0")
    parser.add_argument("--bits", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--supervision", choices=CHOICES, default="labels")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--out", type=Path, default=Path("compare.jsonl"))
    parser.add_argument("--jobs", type=int, default=1, help="cells at a time, a thread each")
    return parser.parse_args()


def tuned(arguments: argparse.Namespace, params: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The settings of each method that serve validation items best."""
    wanted = {
        name: [
            Cell(name, TUNING_BITS, 0, arguments.supervision, tuple(sorted((base | tried).items())))
            for tried in configurations(METHODS[name])
        ]
        for name, base in params.items()
    }
    finish(arguments, [cell for cells in wanted.values() for cell in cells], validate)
    found = {line_name(line): line for line in read_lines(arguments.out)}
    chosen = {}
    for name, cells in wanted.items():
        best = max(cells, key=lambda cell: found[cell.name("validate")]["validation"])
        chosen[name] = dict(best.params)
        print(f"{name}: {chosen[name]}", flush=True)
    return chosen


def finish(arguments: argparse.Namespace, wanted: list[Cell], work: Work) -> None:
    """Do what is not in the results file yet, and add a line for each as soon as it is done."""
    done = {line_name(line) for line in read_lines(arguments.out)}
    missing = [cell for cell in wanted if cell.name(work.__name__) not in done]
    one = delayed(one_cell)
    with parallel_config("loky", inner_max_num_threads=1):
        running = Parallel(arguments.jobs, return_as="generator_unordered")(
            one(arguments.data, arguments.features, cell, work) for cell in missing
        )
        for line in running:
            with arguments.out.open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(line, flush=True)


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The finished lines of a results file."""
    return [json.loads(line) for line in path.open()] if path.exists() else []


def table(lines: list[dict[str, Any]], wanted: list[Cell]) -> list[str]:
    """Markdown: mean and deviation over the seeds, of codes and before binarisation."""
    columns = [*DIRECTIONS, *(f"{direction} cosine" for direction in DIRECTIONS)]
    text = ["| method | bits | " + " | ".join(columns) + " | distinct | seconds | seeds |"]
    text.append("|---" * (len(columns) + 5) + "|")
    found = {line_name(line): line for line in lines}
    rows: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for cell in wanted:
        rows.setdefault((cell.method, cell.bits), []).append(found[cell.name("measure")])
    for (method, bits), seeds in rows.items():
        values = [mean_and_deviation([line[column] for line in seeds]) for column in columns]
        values += [f"{np.mean([line[c] for line in seeds]):.0f}" for c in ("distinct", "seconds")]
        text.append("| " + " | ".join([method, str(bits), *values, str(len(seeds))]) + " |")
    return text


def mean_and_deviation(values: list[float]) -> str:
    """``.612 ± .003``, or the one value there is."""
    mean = f"{np.mean(values):.3f}".lstrip("0")
    if len(values) == 1:
        return mean
    return f"{mean} ± {np.std(values, ddof=1):.3f}".replace("± 0", "± ")


if __name__ == "__main__":
    main()
