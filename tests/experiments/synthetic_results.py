"""Synthetic results with chosen mAP levels."""

import numpy as np

from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.experiment import Experiment
from corrhash.experiments.result_files import save_result

N_QUERIES = 40
RANKS = np.array([1, 50, 100])


def make_result(
    folder,
    row,
    n_bits,
    seed=0,
    *,
    level,
    lost=0.05,
    dataset="scenes",
    split=None,
    variants=None,
    **fields,
):
    """Store a result with APs around ``level``; all rows of a seed share the noise."""
    experiment = Experiment(dataset, row, n_bits, seed, **fields)
    length = 12 if n_bits == "labels" else n_bits
    rng = np.random.default_rng(seed)
    noise = 0.02 * rng.standard_normal(N_QUERIES)
    noise -= noise.mean()
    arrays, directions = {}, {}
    for direction in DIRECTIONS:
        aps = {"hamming": level, "cosine": level + lost, "without_trained": level - 0.1}
        directions[direction] = {}
        for kind, mean in aps.items():
            arrays[f"{direction}.{kind}.ap"] = (mean + noise).astype(np.float32)
            directions[direction][kind] = {
                "map": mean,
                "definition": "all",
                "ties": "expected",
                "depth": None,
                "n_queries": N_QUERIES,
                "n_database": 900,
                "n_without_relevant": 0,
                "n_empty_text": 0,
                "n_distinct_database": 321,
                "precision_at_10": mean + 0.2,
            }
        if variants is not None:
            directions[direction]["variants"] = variants
        arrays[f"{direction}.recall"] = np.linspace(0, 1, 3)
        arrays[f"{direction}.precision_at_recall"] = level * np.array([1.0, 0.9, 0.5])
        arrays[f"{direction}.ranks"] = RANKS
        arrays[f"{direction}.precision_at_rank"] = level * np.array([1.0, 0.9, 0.8])
        arrays[f"{direction}.similar"] = np.arange(length + 1)[::-1]
        arrays[f"{direction}.dissimilar"] = np.arange(length + 1)
    for modality in ("image", "text"):
        arrays[f"{modality}.bit_means"] = np.linspace(-1, 1, length)
    if row.startswith("chn"):
        arrays["log.epoch"] = np.array([1.0, 2.0])
        arrays["log.loss"] = np.array([0.5, 0.25])
        arrays["log.validation_map"] = np.array([np.nan, level])
    facts = {
        "dataset": {
            "fingerprint": "f" * 16,
            "split": split or f"split {seed}",
            "image_features": "simple",
            "sizes": {"train": 500, "validation": 60, "query": N_QUERIES, "database": 900},
            "n_labels": 12,
            "share_similar_training_pairs": 0.3,
        },
        "n_bits": length,
        "ranked_by": "hamming",
        "sign": "+1 above 0, otherwise -1",
        "directions": directions,
        "notes": [],
        "seconds": {"fit": 2.0, "encode": 0.5, "evaluate": 0.1},
        "peak_mb": {"fit": 500.0, "encode": 400.0, "evaluate": 300.0},
    }
    return save_result(experiment, facts, arrays, folder)


LEVELS = {"cvh": 0.4, "scm": 0.5, "dcmh": 0.58, "chn": 0.6, "chn-m": 0.55, "chn-i": 0.61}


def make_study(folder, dataset="scenes", seeds=(0, 1)):
    """Store a study in which CHN beats all but CHN-I, and CHN-Q loses most by binarization."""
    for seed in seeds:
        for n_bits in (16, 32):
            for row, level in LEVELS.items():
                # Small differences between seeds, by row, for the tests over seeds.
                level = level + n_bits / 1000 + 0.001 * seed * len(row)
                make_result(folder, row, n_bits, seed, level=level, dataset=dataset)
            make_result(folder, "chn-q", n_bits, seed, level=0.59, lost=0.1, dataset=dataset)
        make_result(folder, "classifier", "labels", seed, level=0.45, dataset=dataset)
        make_result(folder, "chn", 32, seed, level=0.3, dataset=dataset, unseen=True)
