"""The verb train: train a hashing model on a dataset and save it."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import shlex
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corrhash._files import atomic_write, caching_in
from corrhash.cli.checkpoint import Checkpoint
from corrhash.cli.options import (
    ENCODER_BITS,
    CacheOption,
    DataOption,
    DatasetArgument,
    DeviceOption,
    OfflineOption,
    RootOption,
    SeedOption,
)
from corrhash.cli.output import err, first_line, out, print_line, print_split, progress_bars
from corrhash.errors import InputError

if TYPE_CHECKING:
    from corrhash.calibration import Calibration
    from corrhash.datasets import RetrievalSplit
    from corrhash.datasets.supervision import Supervision
    from corrhash.methods.base import Hasher

BITS = 64
"""Default code length, unless default encoders are used."""


def train(
    dataset: DatasetArgument,
    folder: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the trained model.")
    ],
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Hashing method (**corrhash methods** lists them), or package.module:Class for a "
            "class of your own.",
        ),
    ] = "chn-plus",
    bits: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help=f"Code length, 1 to 1024.  [default: {BITS}; {ENCODER_BITS} for network methods "
            "with the default encoders of your own images]",
        ),
    ] = None,
    params: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set a parameter of the method; repeatable."
        ),
    ] = None,
    image_features: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compute feature vectors of images once, cache them and train on them: simple "
            "(colours and edges), alexnet-pool5, alexnet-fc6, alexnet-fc7, onnx:FILE, onnx:FOLDER, "
            "onnx:HUB-ID, hf:FOLDER, hf:HUB-ID, or a .npy file with one row per item; raw trains a "
            "network on the images.  [default: for your own images, the best encoder that "
            "**corrhash encoders** lists]",
        ),
    ] = None,
    text_features: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Compute feature vectors of texts with a sentence encoder, so that queries can "
            "use any word: onnx:FOLDER, onnx:FILE, onnx:HUB-ID, hf:FOLDER or hf:HUB-ID.  [default: "
            "term vectors of the training texts; for your own images with default image features, "
            "the best text encoder found]",
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Network to train on images: small, alexnet, alexnet-pool5 (AlexNet's "
            "convolutions only), hf:FOLDER or hf:HUB-ID.",
        ),
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="Pretrained weights of the backbone or of the image features: a .pth or "
            ".safetensors file, or alexnet-imagenet, which is downloaded.",
        ),
    ] = None,
    frozen: Annotated[
        bool,
        typer.Option(
            "--frozen",
            help="Keep the pretrained weights of the backbone fixed; train only the hash layer and "
            "layers without pretrained weights.",
        ),
    ] = False,
    device: DeviceOption = None,
    supervision: Annotated[
        str | None,
        typer.Option(
            metavar="KIND|FILE",
            help="labels, pseudo-labels, pairs, or a file of relevance judgments.",
        ),
    ] = None,
    pseudo_labels: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File of terms to use as pseudo-labels, such as an edited pseudo_labels.txt.",
        ),
    ] = None,
    paper_settings: Annotated[
        bool,
        typer.Option("--paper-settings", help="Use the hyperparameters from the method's paper."),
    ] = False,
    root: RootOption = None,
    data: DataOption = None,
    texts: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Set a text option: form (words, tags, or strings for text encoders), min_count, "
            "top (number of terms kept), stop_words=true or stem=english; repeatable.",
        ),
    ] = None,
    seed: SeedOption = 0,
    restart: Annotated[
        bool,
        typer.Option("--restart", help="Discard an interrupted training run and start over."),
    ] = False,
    offline: OfflineOption = False,
    cache: CacheOption = None,
) -> None:
    """Train a hashing model on a dataset.

    The default method is CHN-plus, an improved CHN. **--method chn** optimizes the published
    objective; add **--paper-settings** for the paper's networks and optimizer. **corrhash methods
    chn-plus** lists the parameters of CHN-plus, its networks and its training. To resume
    interrupted network training, run the same command again.

    For your own images, the default features are those of the best pretrained encoder on this
    machine (**corrhash encoders** lists them). If none is found, CLIP is downloaded. To train a
    network on the images themselves, pass **--image-features raw**.

    Supervision defines the similarity between samples: shared **labels**; **pseudo-labels**, terms
    that occur in at least 20 training items but in no more than a fifth of all training items;
    **pairs**, where an image is similar only to its own text and to equal texts; or a file in which
    each line gives an image key, a text key and 1 or -1. The default is **labels** if there are
    any, else **pairs**, or **pseudo-labels** for methods that cannot learn from pairs.

    To train networks with several processes:
    **torchrun --nproc-per-node 2 -m corrhash train ...**

    Example: corrhash train scenes --bits 32 --set training.epochs=20 --out model
    """
    from corrhash.datasets import (
        ImageFeatures,
        Reader,
        dataset_location,
        load_dataset,
        supervise,
    )
    from corrhash.datasets.supervision import check_supervision
    from corrhash.experiments.options import (
        ImageOptions,
        data_options,
        method_class,
        new_hasher,
        parse_params,
        photo_encoders,
        text_options,
        with_seed,
    )
    from corrhash.model import Model, TrainingRun, check_model_folder

    is_first = os.environ.get("RANK", "0") == "0"  # set by torchrun
    out.quiet = err.quiet = not is_first
    check_model_folder(folder)
    check_supervision(supervision, pseudo_labels)
    image_options = ImageOptions(image_features, backbone, weights, frozen)
    settings = image_options.settings(method_class(method), parse_params(params or []))
    n_bits = BITS if bits is None else bits
    hasher = new_hasher(method_class(method), n_bits, settings, paper_settings=paper_settings)
    hasher = _with_training(with_seed(hasher, seed), checkpoint=str(_checkpoint_path(folder)))
    location, options = dataset_location(dataset), data_options(dataset, root, data or [])
    tokens = text_options(texts or [])
    run = Checkpoint(_checkpoint_path(folder))
    about = _settings_of_run(hasher, location, options, image_options, text_features)
    about["n_bits"] = "default" if bits is None else bits
    if is_first:
        run.prepare(about, restart)
    with progress_bars(), caching_in(cache), run.explaining_interrupts():
        features = image_options.features(hasher)
        own_network = any(name.startswith("networks.image") for name in settings)
        if not (image_options.chosen or own_network or paper_settings):
            encoders = photo_encoders(location, options)
            if encoders:
                features = ImageFeatures(encoders["image"])
                text_features = text_features or (None if tokens else encoders.get("text"))
                used = " and ".join(dict.fromkeys(filter(None, (features.name, text_features))))
                print_line(f"Encoders: {used}. Choose others with --image-features.")
                if bits is None and hasattr(hasher, "networks"):
                    hasher = hasher.set_params(n_bits=ENCODER_BITS)
            elif encoders is not None:
                warning = FROM_SCRATCH if features is None else WITHOUT_ENCODER
                err.print(warning, style="bold", soft_wrap=True)
        split = load_dataset(
            location,
            seed=seed,
            image_features=features,
            texts=tokens,
            text_features=text_features,
            **options,
        )
    print_split(split)
    print_line(f"Method: {method}, {hasher.n_bits} bits. {first_line(hasher)}")
    supervised = supervise(
        split,
        supervision,
        pseudo_labels,
        needed=hasher.needs_labels,
        pairs_suffice=hasher.learns_from_pairs,
    )
    for note in supervised.notes:
        print_line(note)
    started = time.perf_counter()
    if hasattr(hasher, "training"):
        keep_freed_memory()
        if is_first:
            run.start(about)
    with progress_bars(), caching_in(cache), run.explaining_interrupts():
        hasher.fit(supervised.train, validation=supervised.validation)
    seconds = time.perf_counter() - started
    if not is_first:
        return
    hasher = _with_training(hasher, checkpoint=None)
    training = TrainingRun(location, seed, options, supervised.name, split.fingerprint)
    calibration, note = _calibration(hasher, split, supervised)
    Model(hasher, split.reader or Reader(), training, calibration).save(folder)
    run.remove()
    _write_history(hasher, folder)
    if terms := supervised.save_pseudo_labels(folder):
        print_line(
            f"Pseudo-labels: {terms}. To change them, edit the file and pass it as --pseudo-labels."
        )
    what = f"{type(hasher).__name__}, {hasher.n_bits} bits"
    print_line(f"Trained {what}, in {seconds:.1f} s{_validation(hasher)}.")
    print_line(note)
    print_line(f"Model: {folder}")
    command = ["corrhash", "evaluate", str(folder), dataset]
    command += ["--method", method] if ":" in method else []
    print_line(f"Next: {shlex.join(command)}")
    index = ["corrhash", "index", "COLLECTION", dataset, "--model", str(folder)]
    index += ["--method", method] if ":" in method else []
    print_line(f"To search: {shlex.join(index)}")


def _calibration(
    hasher: Hasher, split: RetrievalSplit, supervised: Supervision
) -> tuple[Calibration | None, str]:
    """Calibrate a model; return its error too, or the reason why that is impossible."""
    from corrhash.calibration import calibrate

    kind = "pseudo-labels" if supervised.pseudo_labels else "labels"
    pairs = dataclasses.replace(split.pairs, labels=supervised.labels)
    try:
        found = calibrate(hasher, dataclasses.replace(split, pairs=pairs), kind)
    except InputError as error:
        return None, str(error)
    errors = [f"{name} {one.error:.3f}" for name, one in found.directions.items()]
    return found, f"Expected calibration error by direction: {', '.join(errors)}."


BETTER = (
    "For far better results, use a pretrained encoder: run pip install 'corrhash[onnx]' and "
    "repeat this command with access to the Hugging Face Hub, or pass --image-features "
    "onnx:FOLDER. corrhash encoders lists the encoders on this machine."
)
FROM_SCRATCH = (
    "WARNING: no pretrained encoder is available, so a small network is trained from scratch. "
    f"Expect slow training and results that depend mostly on colours and textures. {BETTER}"
)
WITHOUT_ENCODER = (
    "WARNING: no pretrained encoder is available, so images are described by colours and edges. "
    f"Expect poor results on photos. {BETTER}"
)


def _settings_of_run(
    hasher: Any, location: str, options: dict[str, Any], images: Any, text_features: str | None
) -> dict[str, Any]:
    """Return what must be equal for a command to resume an interrupted one."""
    params = hasher.plain_params()
    params.get("training", {}).pop("checkpoint", None)
    return {
        "method": hasher.import_path,
        **params,
        "dataset": location,
        "data": options,
        "image features": images.image_features,
        "text features": text_features,
    }


# Constants of <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
INT_MAX = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let this process keep memory that it frees, and return whether that is supported.

    By default, glibc returns large blocks to the system. The system fills new ones with zeros, page
    by page. A training step of a large network frees and allocates gigabytes, and spends half of
    its time on that. The memory stays with the process until it ends, so this is for a process that
    does nothing but train.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, INT_MAX))


def _with_training(hasher: Any, **changes: Any) -> Any:
    """Change training settings of a hasher, if it has any."""
    if hasattr(hasher, "training"):
        hasher.training = dataclasses.replace(hasher.training, **changes)
    return hasher


def _checkpoint_path(folder: Path) -> Path:
    """Return where training keeps its checkpoint until the model is saved."""
    return folder.with_name(f".{folder.name}.checkpoint")


def _validation(hasher: Any) -> str:
    """Return the validation mAP of the best epoch, as the end of a sentence."""
    history = getattr(hasher, "history_", None) or []
    maps = [entry["validation_map"] for entry in history if entry.get("validation_map") is not None]
    return f": validation mAP {max(maps):.3f}" if maps else ""


def _write_history(hasher: Any, folder: Path) -> None:
    """Write the training history beside the model: as JSON lines, and as a plot."""
    history = getattr(hasher, "history_", None)
    if history is None:
        return
    with atomic_write(folder / "log.jsonl") as file:
        file.writelines(json.dumps(entry).encode() + b"\n" for entry in history)
    if find_spec("matplotlib") is not None:
        from corrhash.experiments.report.figures import plot_history

        plot_history(history, folder / "training.png", f"{hasher.n_bits} bits")
