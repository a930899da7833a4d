"""The verbs on models: train, evaluate, encode, export-onnx."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrhash.cache_folder import caching_in
from corrhash.cli.options import (
    BitsOption,
    CacheOption,
    DataOption,
    DatasetArgument,
    MethodOption,
    ModelArgument,
    RootOption,
    SeedOption,
    method_named,
)
from corrhash.cli.score_tables import print_scores, say_split
from corrhash.cli.terminal import err, out, progress_bars, say
from corrhash.errors import InputError
from corrhash.freed_memory import keep_freed_memory

if TYPE_CHECKING:  # heavy parts are imported by the verbs that need them: help comes at once
    from corrhash.datasets.base import RetrievalSplit

N_CHECKED = 1000
"""Items on which exported networks are compared with those of PyTorch."""


def train(
    dataset: DatasetArgument,
    folder: Annotated[Path, typer.Option("--out", help="Folder for the trained model.")],
    method: Annotated[
        str, typer.Option(help="A name, or package.module:Class for a method of your own.")
    ] = "chn",
    bits: BitsOption = 64,
    params: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the method; repeatable."),
    ] = None,
    image_features: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Turn pictures into vectors first, computed once and cached: simple (colours and "
            "edges), alexnet-pool5, -fc6 or -fc7, hf:FOLDER or hf:HUB-ID, or a .npy file with a "
            "row for each item. CHN then trains hidden layers on them.",
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="The network that is trained on pictures: small, alexnet, alexnet-pool5 (its "
            "convolutions, with hidden layers as for features), hf:FOLDER or hf:HUB-ID.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="What the backbone starts from, or the features are computed with: a .pth or "
            ".safetensors file, or alexnet-imagenet, which is downloaded.",
        ),
    ] = None,
    frozen: Annotated[
        bool,
        typer.Option(
            "--frozen",
            help="Keep the weights of the backbone; train its hash layer, and layers that the file "
            "lacks.",
        ),
    ] = False,
    device: Annotated[
        str | None,
        typer.Option(help="What trains and computes features: cpu, cuda or mps.  [default: cpu]"),
    ] = None,
    supervision: Annotated[
        str | None,
        typer.Option(help="labels, words, pairs, or a file of judged pairs.", metavar="KIND|FILE"),
    ] = None,
    words: Annotated[
        Path | None,
        typer.Option(help="The words that act as labels: words.txt of a model, edited."),
    ] = None,
    literal: Annotated[
        bool, typer.Option("--literal", help="The published settings, where a method has them.")
    ] = False,
    root: RootOption = None,
    data: DataOption = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="What strings become: form=words, tags or strings (for text encoders), min_count, "
            "top, stop_words=true, stem=english; repeatable.",
        ),
    ] = None,
    seed: SeedOption = 0,
    cache: CacheOption = None,
) -> None:
    """Learn codes from a dataset and leave a model behind.

    Networks go on from where an interrupted run with the same settings stopped. Settings of
    networks and of their training are parameters too: **corrhash methods chn** lists them.

    Supervision tells who is similar to whom: **labels** that are shared; **words**, of which those
    that at least 20 items and at most a fifth of them carry act as labels; **pairs**, an image with
    its own text alone; or a file whose lines are image key, text key and 1 or -1. By default the
    first of these that the dataset allows.

    Several processes train networks as one: torchrun --nproc-per-node 2 -m corrhash train ...

    Example: corrhash train scenes --method chn --bits 32 --set training.epochs=20 --out model
    """
    from corrhash.datasets import Reader, load_dataset, place_of, supervise
    from corrhash.datasets.supervision import check_choice
    from corrhash.experiments.data_options import data_options, text_options
    from corrhash.experiments.picture_options import PictureOptions
    from corrhash.experiments.settings import method_class, new_hasher, parse_params, with_seed
    from corrhash.experiments.trained_model import TrainedModel, check_model_folder

    first = _is_first_process()
    out.quiet = err.quiet = not first
    check_model_folder(folder)
    check_choice(supervision, words)
    pictures = PictureOptions(image_features, backbone, weights, frozen, device)
    settings = pictures.settings(method_class(method), parse_params(params or []))
    hasher = new_hasher(method_class(method), bits, settings, literal=literal)
    hasher = _with_training(with_seed(hasher, seed), checkpoint=str(_checkpoint_of(folder)))
    place, options = place_of(dataset), data_options(dataset, root, data or [])
    words_of = text_options(texts or [])
    with progress_bars(), caching_in(cache):
        features = pictures.features(hasher)
        split = load_dataset(place, seed=seed, image_features=features, texts=words_of, **options)
    say_split(split)
    taught = supervise(split, supervision, words, needed=hasher.needs_labels)
    for note in taught.notes:
        say(note)
    started = time.perf_counter()
    if hasattr(hasher, "training"):  # networks, whose every step frees what the next one needs
        keep_freed_memory()
    with progress_bars(), caching_in(cache):
        hasher.fit(taught.train, taught.validation)
    if not first:
        return
    hasher = _with_training(hasher, checkpoint=None)
    reader = split.reader or Reader()
    trained = TrainedModel(hasher, reader, place, seed, options, taught.name, split.fingerprint)
    trained.save(folder)
    shutil.rmtree(_checkpoint_of(folder), ignore_errors=True)
    _write_history(hasher, folder)
    if words_file := taught.save_words(folder):
        say(f"Words that act as labels: {words_file}. Edit it and train again with --words.")
    seconds = time.perf_counter() - started
    say(f"Trained {type(hasher).__name__} of {bits} bits in {seconds:.1f} s. Model: {folder}")
    own = f" --method {method}" if ":" in method else ""
    say(f"Next: corrhash evaluate {shlex.quote(str(folder))} {shlex.quote(dataset)}{own}")


def evaluate(
    model: ModelArgument,
    dataset: DatasetArgument,
    reading: Annotated[
        str,
        typer.Option(help="all, dcmh, hashnet@R, first@k, possible@k or trec@k."),
    ] = "all",
    ties: Annotated[
        str | None,
        typer.Option(
            help="expected, stable, optimistic or pessimistic; by default that of the reading."
        ),
    ] = None,
    cosine: Annotated[
        bool, typer.Option("--cosine", help="Rank by the scores before they are rounded to codes.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Every number, as JSON.")] = False,
    root: RootOption = None,
    method: MethodOption = None,
    cache: CacheOption = None,
) -> None:
    """Measure a model on the queries of a dataset, in both directions.

    The queries are those that training held out. The database is everything else; the second row
    leaves out what was trained on. Without labels, queries look for their partners among one
    another.
    """
    from corrhash.datasets import place_of
    from corrhash.experiments.directions import ranked_pairs, score_directions

    with progress_bars(), caching_in(cache):
        trained = _load_model(model, dataset, method)
        split = trained.load_split(place_of(dataset), root)
        query, database = ranked_pairs(
            trained.hasher, split.query, split.database, "cosine" if cosine else None
        )
    bounds = ties in ("optimistic", "pessimistic")  # not defined for NDCG
    options = {"reading": reading, "ties": ties, "ndcg_at": () if bounds else (100,)}
    scores = score_directions(split, query, database, **options)
    both, unseen = {"all": scores}, ~split.train_in_database
    if split.query.labels is not None and unseen.any():
        new = {side: codes[unseen] for side, codes in database.items()}
        without = score_directions(split.without_trained(), query, new, **options)
        both["without_training_items"] = without
    if as_json:
        plain = {name: {d: s.as_dict() for d, s in of.items()} for name, of in both.items()}
        plain["dataset"] = _described(split)
        sys.stdout.write(json.dumps(plain) + "\n")
        return
    print_scores(scores, both.get("without_training_items"))
    say(f"{split.name}: {split.fingerprint}")


def encode(
    model: ModelArgument,
    dataset: DatasetArgument,
    path: Annotated[Path, typer.Option("--out", help="The file of codes to write (.npz).")],
    part: Annotated[str, typer.Option(help="train, validation, query or database.")] = "database",
    root: RootOption = None,
    method: MethodOption = None,
    cache: CacheOption = None,
) -> None:
    """Write the image and text codes of a dataset, and the keys of its items, to one file.

    Read it in Python with corrhash.codes.load_codes(path).
    """
    from corrhash.codes import save_codes
    from corrhash.datasets import place_of
    from corrhash.datasets.base import PARTS
    from corrhash.experiments.directions import encode_pairs

    if part not in PARTS:
        raise InputError(f"There is no part {part!r}. Choose one of: {', '.join(PARTS)}.")
    with progress_bars(), caching_in(cache):
        trained = _load_model(model, dataset, method)
        pairs = getattr(trained.load_split(place_of(dataset), root), part)
        codes = encode_pairs(trained.hasher, pairs)
        save_codes(path, codes, pairs.row_keys())
    say(f"{codes['image']} of images and of texts each: {path}")


def export_onnx(
    model: ModelArgument,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="DATASET",
            help="What the model was trained on: compare the scores of 1,000 of its items.",
        ),
    ] = None,
    root: RootOption = None,
    method: MethodOption = None,
    cache: CacheOption = None,
) -> None:
    """Write the networks of a model as ONNX files, for machines without PyTorch.

    The files stand beside the model, with their checksums. From then on, everything that encodes
    with this model runs on them (ONNX Runtime) and starts without PyTorch; remove onnx.json to go
    back. The model of a collection is in its folder: corrhash export-onnx photos/model

    With **--check** it says how many bits differ, and ends with code 1 if one does whose score is
    not within 0.00001 of 0.
    """
    from corrhash.methods.onnx_export import export_onnx as export

    for path in export(model, method_named(method)):
        say(f"{path}: {path.stat().st_size / 1e6:.1f} MB")
    if check is not None:
        with progress_bars(), caching_in(cache):
            _check_export(model, check, root)


def _check_export(model: Path, dataset: str, root: Path | None) -> None:
    """Compare both kinds of networks of a model on some items of its dataset."""
    from corrhash.datasets import place_of
    from corrhash.experiments.settings import method_class
    from corrhash.methods.export_check import compare

    exported = _load_model(model, dataset, None)
    trained = method_class(exported.hasher.place).load(model)
    some = exported.load_split(place_of(dataset), root).database.take(slice(0, N_CHECKED))
    differences = compare(trained, exported.hasher, some)
    for difference in differences:
        say(str(difference))
    if not all(difference.small for difference in differences):
        raise typer.Exit(1)


def _with_training(hasher: Any, **changes: Any) -> Any:
    """The hasher with other settings of its training, if it has one."""
    if hasattr(hasher, "training"):
        hasher.training = dataclasses.replace(hasher.training, **changes)
    return hasher


def _is_first_process() -> bool:
    """Whether this process speaks and writes: of those that torchrun started, the first."""
    return os.environ.get("RANK", "0") == "0"


def _checkpoint_of(folder: Path) -> Path:
    """Where a training leaves what it needs to go on; gone when the model is there."""
    return folder.with_name(f".{folder.name}.checkpoint")


def _write_history(hasher: Any, folder: Path) -> None:
    """The epochs of a training beside its model, as lines of JSON and as a picture."""
    from corrhash.atomic_write import atomic_write
    from corrhash.experiments.plots import plot_history

    history = getattr(hasher, "history_", None)
    if history is None:
        return
    with atomic_write(folder / "log.jsonl") as file:
        file.writelines(json.dumps(entry).encode() + b"\n" for entry in history)
    plot_history(history, folder / "training.png", f"{hasher.n_bits} bits")


def _described(split: RetrievalSplit) -> dict[str, Any]:
    """What a result says of the data that it rests on."""
    found = split.fingerprint
    return {"name": split.name, **({} if found is None else dataclasses.asdict(found))}


def _load_model(folder: Path, dataset: str, method: str | None) -> Any:
    from corrhash.datasets import DATASETS, place_of
    from corrhash.experiments.trained_model import TrainedModel

    trained = TrainedModel.load(folder, method_named(method))
    place_of(dataset)
    if dataset != trained.dataset and (dataset in DATASETS or trained.dataset in DATASETS):
        raise InputError(
            f"The model in {folder} was trained on {trained.dataset}, and reads its items only. "
            f"Got {dataset}. Use {trained.dataset}, or train a model on {dataset}."
        )
    return trained
