"""The verbs for trained models and their codes: evaluate, score, encode, export-onnx."""

from __future__ import annotations

import dataclasses
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrhash._files import caching_in, check_suffix
from corrhash.cli.options import (
    AllowDownloadOption,
    CacheOption,
    DataOption,
    DatasetArgument,
    DeviceOption,
    MethodOption,
    ModelArgument,
    RootOption,
    SeedOption,
    method_named,
)
from corrhash.cli.output import print_line, print_scores, progress_bars
from corrhash.errors import InputError

if TYPE_CHECKING:
    from corrhash.datasets.base import RetrievalSplit
    from corrhash.model import Model

N_COMPARED = 1000
"""Number of items on which exported networks are compared with PyTorch."""


DefinitionOption = Annotated[
    str,
    typer.Option(
        "--map-definition",
        metavar="NAME",
        help="Definition of mAP: all (whole ranking), or a published variant: dcmh, hashnet@R, "
        "first@k, possible@k or trec@k; see the metrics page.",
    ),
]
TiesOption = Annotated[
    str | None,
    typer.Option(
        "--ties",
        metavar="RULE",
        help="Order of tied items: expected (mean over all orders), stable (by row), "
        "optimistic or pessimistic.  [default: expected; stable for mAP definitions with @R or @k]",
    ),
]
CosineOption = Annotated[
    bool,
    typer.Option(
        "--cosine",
        help="Rank by cosine similarity of continuous codes instead of Hamming distance.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print all metrics as JSON.")]


def evaluate(
    model: ModelArgument,
    dataset: DatasetArgument,
    definition: DefinitionOption = "all",
    ties: TiesOption = None,
    cosine: CosineOption = False,
    as_json: JsonOption = False,
    device: DeviceOption = None,
    root: RootOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
    cache: CacheOption = None,
) -> None:
    """Evaluate a model on the queries of a dataset, image to text and text to image.

    The queries were held out from training. With labels, the database contains all other items; a
    second mAP excludes training items. Without labels, queries are ranked among one another, and
    only the paired item is relevant; Recall@k is reported.

    Example: corrhash evaluate model scenes
    """
    from corrhash.datasets import dataset_location
    from corrhash.experiments.evaluation import encode_for_ranking, evaluate_directions

    with progress_bars(), caching_in(cache):
        trained = _load_model(model, dataset, method, allow_download)
        split = trained.load_split(dataset_location(dataset), root)
        query, database = encode_for_ranking(
            trained.hasher, split.query, split.database, "cosine" if cosine else None
        )
    options = _options(definition, ties)
    scores = {"all": evaluate_directions(split.query, split.database, query, database, **options)}
    unseen = ~split.train_in_database
    if split.query.labels is not None and unseen.any():
        remaining = split.without_trained().database
        codes = {modality: of_modality[unseen] for modality, of_modality in database.items()}
        scores["without_training_items"] = evaluate_directions(
            split.query, remaining, query, codes, **options
        )
    if as_json:
        plain = {name: {d: s.as_dict() for d, s in of.items()} for name, of in scores.items()}
        sys.stdout.write(json.dumps(plain | {"dataset": _describe(split)}) + "\n")
        return
    print_scores(scores["all"], scores.get("without_training_items"))
    print_line(f"{split.name}: {split.fingerprint}")
    collection = f"{Path(dataset).resolve().stem}-collection"
    command = ["corrhash", "index", collection, dataset, "--model", str(model)]
    print_line(f"Next: {shlex.join([*command, *(['--method', method] if method else [])])}")


def score(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...", help="File of codes: .npz, .mat, or a folder of .npy files."
        ),
    ],
    dataset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Dataset that defines queries, database and labels: a name or a path, as for "
            "**corrhash train**.",
        ),
    ] = None,
    definition: DefinitionOption = "all",
    ties: TiesOption = None,
    cosine: CosineOption = False,
    as_json: JsonOption = False,
    root: RootOption = None,
    data: DataOption = None,
    seed: SeedOption = 0,
    cache: CacheOption = None,
) -> None:
    """Score codes from any program, image to text and text to image.

    Without **--dataset**, one file has the arrays query_image, query_text, database_image and
    database_text, or those of one direction, and query_labels and database_labels, or judgments
    (query row, database row, 1 or -1). The names of the .mat files of DCHMT, DSPH and SSAH are
    known, too. With **--dataset**, the files have the arrays image, text and keys, as **corrhash
    encode** writes them. Codes are -1 and 1, 0 and 1, real numbers, which are binarized by their
    sign, or packed with n_bits.

    Example: corrhash score codes.npz --map-definition hashnet@50
    """
    from corrhash.experiments.code_files import read_codes_of_dataset, read_queries_and_database

    split = None
    if dataset is None:
        if len(files) > 1:
            raise InputError(
                f"Without --dataset, exactly one file of codes is accepted, got {len(files)}."
            )
        codes = read_queries_and_database(files[0], cosine=cosine)
    else:
        from corrhash.datasets import dataset_location, load_dataset
        from corrhash.experiments.options import data_options

        with progress_bars(), caching_in(cache):
            settings = data_options(dataset, root, data or [])
            split = load_dataset(dataset_location(dataset), seed=seed, **settings)
        codes = read_codes_of_dataset(files, split, cosine=cosine)
    scores = codes.scores(**_options(definition, ties))
    if as_json:
        described = {} if split is None else {"dataset": _describe(split)}
        plain = {direction: of_direction.as_dict() for direction, of_direction in scores.items()}
        sys.stdout.write(json.dumps(plain | described) + "\n")
        return
    print_scores(scores)
    if codes.ignored:
        print_line(f"Arrays with unknown names, not used: {', '.join(codes.ignored)}.")
    if split is not None:
        print_line(f"{split.name}: {split.fingerprint}")


def _options(definition: str, ties: str | None) -> dict[str, Any]:
    """Return the options of an evaluation; NDCG has no bounds over ties."""
    has_ndcg = ties not in ("optimistic", "pessimistic")
    return {"definition": definition, "ties": ties, "ndcg_at": (100,) if has_ndcg else ()}


def encode(
    model: ModelArgument,
    dataset: DatasetArgument,
    path: Annotated[Path, typer.Option("--out", metavar="FILE", help="File of codes (.npz).")],
    part: Annotated[
        str, typer.Option(metavar="NAME", help="train, validation, query or database.")
    ] = "database",
    device: DeviceOption = None,
    root: RootOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
    cache: CacheOption = None,
) -> None:
    """Encode the images and texts of a dataset and write their codes and keys to a file.

    To read it in Python: **codes, keys = corrhash.load_codes("codes.npz")**

    Example: corrhash encode model scenes --out codes.npz
    """
    from corrhash.codes import save_codes
    from corrhash.datasets import dataset_location
    from corrhash.datasets.base import PARTS
    from corrhash.experiments.evaluation import encode_pairs

    check_suffix(path, [".npz"], "a file of codes")
    if part not in PARTS:
        raise InputError(f"--part must be one of {', '.join(PARTS)}, got {part!r}.")
    with progress_bars(), caching_in(cache):
        trained = _load_model(model, dataset, method, allow_download)
        pairs = getattr(trained.load_split(dataset_location(dataset), root), part)
        codes = encode_pairs(trained.hasher, pairs)
        save_codes(path, codes, pairs.row_keys())
    print_line(
        f"Wrote {len(codes['image']):,} image codes and {len(codes['text']):,} text codes of "
        f"{trained.n_bits} bits: {path}"
    )


def export_onnx(
    model: ModelArgument,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="Encode up to 1,000 items of DATASET with ONNX Runtime and PyTorch and compare "
            "the codes.",
        ),
    ] = None,
    root: RootOption = None,
    method: MethodOption = None,
    allow_download: AllowDownloadOption = False,
    cache: CacheOption = None,
) -> None:
    """Export the networks of a model to ONNX, for other programs or machines without PyTorch.

    The files are written to the model folder, with their checksums. From then on, ONNX Runtime
    encodes raw images for this model, and PyTorch is not loaded. To undo this, delete onnx.json.
    Networks on vectors never need PyTorch to encode. The model of a collection is in its folder:
    **corrhash export-onnx photos/model**

    **--check** prints how many bits differ. The exit code is 1 if any differing bit has a
    continuous value larger than 0.00001 in magnitude.
    """
    from corrhash.methods.onnx_export import export_onnx as export

    for path in export(model, method_named(method)):
        print_line(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    if check is not None:
        with progress_bars(), caching_in(cache):
            _check_export(model, check, root, method, allow_download)


def _check_export(
    folder: Path, dataset: str, root: Path | None, method: str | None, allow_download: bool
) -> None:
    """Compare PyTorch and ONNX Runtime on items of the dataset."""
    from corrhash.datasets import dataset_location
    from corrhash.methods.onnx_export import compare

    model = _load_model(folder, dataset, method, allow_download)
    items = model.load_split(dataset_location(dataset), root).database.take(slice(N_COMPARED))
    trained: Any = model.hasher  # only models with networks can be exported
    differences = compare(folder, trained, items)
    for difference in differences:
        print_line(str(difference))
    if not all(difference.small for difference in differences):
        raise typer.Exit(1)


def _load_model(folder: Path, dataset: str, method: str | None, allow_download: bool) -> Model:
    """Load a model, and check that it was trained on the dataset."""
    from corrhash.datasets import DATASETS, dataset_location
    from corrhash.model import load_model

    model = load_model(folder, method_named(method), allow_download=allow_download)
    dataset_location(dataset)
    known = dataset if model.training is None else model.training.dataset
    if dataset != known and (dataset in DATASETS or known in DATASETS):
        raise InputError(
            f"The model in {folder} was trained on {known} and cannot be used with "
            f"{dataset}. Use {known}, or train a model on {dataset}."
        )
    return model


def _describe(split: RetrievalSplit) -> dict[str, Any]:
    """Return the name and fingerprint of a dataset."""
    fingerprint = {} if split.fingerprint is None else dataclasses.asdict(split.fingerprint)
    return {"name": split.name, **fingerprint}
