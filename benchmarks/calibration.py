"""Calibration of a model on held-out queries: are matches as likely relevant as they claim?

The queries of a dataset search its database, once without the items that the model was trained on
and once with all. Reported are the expected calibration error of the 100 nearest items, which a
search re-ranks, and of the whole database, and the share of relevant items above and below the line
of probability .5 that the search page draws.

    python -m benchmarks.calibration MODEL DATASET [--root FOLDER] [--figure FILE.png]

MODEL is a folder that corrhash train wrote for DATASET.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from corrhash import Collection, load_model
from corrhash.calibration import expected_calibration_error, reliability
from corrhash.collection.base import Query, SearchOptions
from corrhash.collection.search import encode_queries, find_pages
from corrhash.datasets import RetrievalSplit, dataset_location
from corrhash.datasets.base import is_empty_text
from corrhash.experiments.evaluation import encode_pairs
from corrhash.model import Model
from corrhash.similarity import share_label

N_RESULTS = 100
LINE = 0.5


def measure(model: Model, split: RetrievalSplit) -> dict[str, Any]:
    """Return the measurements of each direction, with the database of a split as a collection."""
    calibration, database = model.calibration, split.database
    if calibration is None:
        raise SystemExit("The model is not calibrated. Train it again on a dataset with labels.")
    collection = Collection.create("memory:", model)
    collection.add_pairs(database)
    ids = collection.ids_of(database.row_keys())
    row_of = {ids[key]: row for row, key in enumerate(database.row_keys()) if key in ids}
    codes = encode_pairs(model.hasher, database)
    coded = {"image": np.ones(len(database), dtype=bool), "text": ~is_empty_text(database.texts)}
    measured = {}
    for direction in calibration.directions:
        asked, found = direction.split("->")
        queries = split.query
        if asked == "text":
            queries = queries.take(~is_empty_text(queries.texts))
        values = queries.images if asked == "image" else queries.texts
        query = Query(asked, values)  # type: ignore[arg-type]
        encoded = encode_queries(query, model, collection.index)
        options = SearchOptions(find=found, k=N_RESULTS)
        pages, _ = find_pages(collection.index, encoded, options, calibration=calibration)
        relevant = share_label(queries.labels, database.labels)  # (n_queries, n_items)
        shown = [(row, *one) for row, page in enumerate(pages) for one in page]
        shown_p = np.array([one[4] for one in shown])
        shown_relevant = np.array([relevant[one[0], row_of[one[1]]] for one in shown])
        distances = encoded.codes.hamming(codes[found][coded[found]])
        every_p = calibration.probabilities(direction, "query distance", distances)
        every_relevant = relevant[:, coded[found]]
        measured[direction] = {
            "queries": len(queries),
            "items": int(coded[found].sum()),
            "error_of_100_nearest": expected_calibration_error(shown_p, shown_relevant),
            "error_of_all": expected_calibration_error(every_p, every_relevant),
            "line_in_100_nearest": _precision(shown_p, shown_relevant),
            "line_in_all": _precision(every_p, every_relevant),
            "reliability_of_100_nearest": reliability(shown_p, shown_relevant).tolist(),
        }
    return measured


def _precision(probabilities: np.ndarray, relevant: np.ndarray) -> dict[str, float | None]:
    """Return the share of relevant items above and below the line, and how many are above it."""
    above = probabilities >= LINE
    return {
        "share_above": float(above.mean()),
        "precision_above": float(relevant[above].mean()) if above.any() else None,
        "precision_below": None if above.all() else float(relevant[~above].mean()),
    }


def draw(measured: dict[str, Any], title: str, path: Path) -> None:
    """Draw the reliability diagram of the 100 nearest items."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.4, 4.2), layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1], [0, 1], color="0.7", linewidth=1)
    for direction, values in measured.items():
        n, probability, share = np.array(values["reliability_of_100_nearest"]).T
        shown = n >= 0.001 * n.sum()
        label = f"{direction}, error {values['error_of_100_nearest']:.3f}"
        axes.plot(probability[shown], share[shown], marker="o", markersize=4, label=label)
    axes.set(xlim=(0, 1), ylim=(0, 1), xlabel="probability", ylabel="share relevant", title=title)
    axes.legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Print the measurements as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("dataset")
    parser.add_argument("--root", type=Path)
    parser.add_argument("--figure", type=Path)
    given = parser.parse_args()
    model = load_model(given.model)
    split = model.load_split(dataset_location(given.dataset), given.root)
    measured = {
        "without_training_items": measure(model, split.without_trained()),
        "all_items": measure(model, split),
    }
    print(json.dumps(measured))
    if given.figure is not None:
        draw(measured["without_training_items"], split.name, given.figure)


if __name__ == "__main__":
    main()
