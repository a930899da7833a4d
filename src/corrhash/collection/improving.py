"""Improving a collection: fine-tune its model on judgments, encode all items again, switch.

The new model is written to a folder of its own and the new codes beside the old ones. One
transaction then exchanges the codes and names the new model, so that a crash leaves the old
generation or the new one. The codes of the old generation stay, to be restored.
"""

from __future__ import annotations

import logging
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from corrhash._progress import report
from corrhash.calibration import Calibration, calibrate
from corrhash.codes import Codes
from corrhash.collection.collection import Collection
from corrhash.collection.creating import MODEL_FOLDER
from corrhash.collection.generations import generation_of
from corrhash.collection.item_inputs import ItemInputs, judged_data
from corrhash.collection.judging import KIND, numbered_judgments
from corrhash.collection.search import pack_continuous, stores_continuous
from corrhash.datasets.records import Record, UnreadableRecord
from corrhash.datasets.supervision import supervise
from corrhash.errors import InputError
from corrhash.index.sqlite import SQLiteIndex
from corrhash.index.sqlite_staging import Codings, Staging
from corrhash.methods.fine_tuning import (
    FineTuning,
    JudgedData,
    fine_tune,
    judged_scores,
    share_in_order,
)
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.model import Model

LOCK = ".improving.lock"
BATCH = 512
"""Items that are encoded and staged at a time."""

FOLDS = 3
"""Parts of the queries; each is held out once."""

log = logging.getLogger("corrhash")

Records = Iterable[Record | UnreadableRecord]


@dataclass(frozen=True)
class Outcome:
    """What a validation found.

    Parameters
    ----------
    switched : whether the new model is better, so that the collection has a new generation.
    before, after : how often an item that fits a held-out query has a higher score than one that
        does not fit, with the old model and with new ones. The texts of fitting items count as
        queries too.
    n_judgments, n_queries : what the new model was trained on.
    """

    switched: bool
    before: float
    after: float
    n_judgments: int
    n_queries: int


@dataclass(frozen=True)
class Improved(Outcome):
    """The outcome of an improvement.

    Parameters
    ----------
    generation : number of the current generation; 0 is that of the original model.
    seconds : time that the improvement took.
    """

    generation: int
    seconds: float


def improve(
    collection: Collection, records: Records = (), settings: FineTuning | None = None
) -> Improved:
    """Fine-tune the model of a collection on its judgments, and switch to it if it is better.

    Training starts from the original model, with all judgments. Validation compares the new model
    with the current one on judgments that neither was trained on: those since the last improvement,
    a third of their queries at a time. Others can search and change the collection meanwhile. An
    interrupted improvement is resumed by the next one.

    Parameters
    ----------
    collection : a collection in a folder, whose model is a network method on feature vectors.
    records : the source of the collection, if its images are feature vectors.
    settings : of the fine-tuning.
    """
    started = time.perf_counter()
    index = _folder_index(collection)
    with _exclusive(collection):
        index.view()  # brings the description up to date
        inputs = ItemInputs(index, collection.model, records)
        new = _pending(index)
        if new is None:
            judged = index.records(KIND)  # others can judge during the training
            outcome, model = _train(collection, inputs, judged, settings or FineTuning())
            new = {"outcome": asdict(outcome)}
            if model is not None:
                new |= _save(collection, model, len(judged))
                Staging(index).start(staged=new["fingerprint"], pending=new)
        if "model" in new:
            _stage_and_switch(collection, inputs, new)
        generation = generation_of(index.about)
    return Improved(**new["outcome"], generation=generation, seconds=time.perf_counter() - started)


def restore(collection: Collection, records: Records = ()) -> int:
    """Return to the previous model and its codes; return the number of the new generation.

    Items that were added or changed since are encoded with it. A second call undoes the first.
    """
    index = _folder_index(collection)
    with _exclusive(collection):
        index.view()
        previous = index.about.get("previous")
        if previous is None:
            raise InputError(
                f"{collection.uri} has no previous model to restore: corrhash improve has not "
                "replaced its model."
            )
        if index.about.get("staged") != previous["fingerprint"]:
            Staging(index).start(staged=previous["fingerprint"], pending=None)
        _stage_and_switch(collection, ItemInputs(index, collection.model, records), previous)
        return generation_of(index.about)


def _folder_index(collection: Collection) -> SQLiteIndex:
    if not isinstance(collection.index, SQLiteIndex):
        raise InputError(
            f"Only a collection in a folder can be improved, got {collection.uri}. Copy it to a "
            "folder first: corrhash copy."
        )
    return collection.index


@contextmanager
def _exclusive(collection: Collection) -> Iterator[None]:
    """Let no other process improve the collection inside the block."""
    lock = FileLock(Path(collection.uri) / LOCK)
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise InputError(
            f"Another process is improving {collection.uri}. Wait until it has finished."
        ) from error
    except OSError as error:
        raise InputError(
            f"Cannot write to {collection.uri}: {error.strerror}. Check the permissions of the "
            "folder."
        ) from error
    try:
        yield
    finally:
        lock.release()


def _pending(index: SQLiteIndex) -> dict[str, Any] | None:
    """Return the model that an interrupted improvement has trained, unless it is outdated."""
    found: dict[str, Any] | None = index.about.get("pending")
    if found is None or found["judged"] != len(index.records(KIND)):
        return None
    is_next = found["generation"] == generation_of(index.about) + 1
    return found if is_next and index.about.get("staged") == found["fingerprint"] else None


def _train(
    collection: Collection,
    inputs: ItemInputs,
    judged: Sequence[dict[str, Any]],
    settings: FineTuning,
) -> tuple[Outcome, Model | None]:
    """Return the outcome of the validation, and a new model if it is better."""
    original = _load(collection, MODEL_FOLDER)
    widths = {name: width or 0 for name, width in _networks(original).inputs_.items()}
    numbered, n_known = numbered_judgments(judged), int(inputs.index.about.get("judged") or 0)
    is_new = [number >= n_known for number, _ in numbered]
    data = judged_data([one for _, one in numbered], inputs, is_new, widths)
    before, after = _validate(collection.model, original, data, settings)
    n_judged = sum(len(query.items) for query in data.queries)
    outcome = Outcome(after > before, before, after, n_judged, len(data.queries))
    if not outcome.switched:
        return outcome, None
    hasher = fine_tune(_networks(original), data, settings)
    return outcome, replace(original, hasher=hasher, calibration=_calibrate(original, hasher))


def _calibrate(original: Model, hasher: NetworkHasher) -> Calibration | None:
    """Calibrate a new hasher on the data that the original model was calibrated on.

    A probability cannot be carried over from the original model: where the new one is better, its
    nearest matches are relevant more often.
    """
    known, training = original.calibration, original.training
    if known is None or training is None:
        return None
    try:
        split = original.load_split(training.dataset)
        if known.relevance == "pseudo-labels":
            labels = supervise(split, "pseudo-labels").labels
            split = replace(split, pairs=replace(split.pairs, labels=labels))
        found = calibrate(hasher, split, known.relevance)
        if _counts(found) != _counts(known):  # such as pseudo-labels that were chosen by hand
            raise InputError(f"The {known.relevance} of {training.dataset} have changed.")
    except InputError as error:
        log.warning("Matches of the new model will have no probability of relevance. %s", error)
        return None
    return found


def _counts(calibration: Calibration) -> dict[str, tuple[int, int]]:
    """Return what a calibration is based on: it depends on the labels, but not on the model."""
    return {name: (one.n_queries, one.n_relevant) for name, one in calibration.directions.items()}


def _networks(model: Model) -> NetworkHasher:
    """Return the hasher of a model that can be fine-tuned."""
    hasher = model.hasher
    if not isinstance(hasher, NetworkHasher) or None in hasher.inputs_.values():
        raise InputError(
            f"This model ({model.method}) cannot be fine-tuned. Only networks that read feature "
            "vectors can, such as those of chn-plus with an encoder. Create a collection with such "
            "a model."
        )
    return hasher


def _validate(
    current: Model, original: Model, data: JudgedData, settings: FineTuning
) -> tuple[float, float]:
    """Return the shares in the right order on held-out queries: of the current and new models."""
    tested = {
        at: replace(query, items=[item for item in query.items if item.new])
        for at, query in enumerate(data.queries)
        if any(item.new for item in query.items)
    }
    verdicts = {item.verdict for query in tested.values() for item in query.items}
    if len(tested) < FOLDS:
        raise InputError(
            f"Improving needs new judgments of at least {FOLDS} queries, got {len(tested)}. Judge "
            "results of more queries."
        )
    if verdicts != {1, -1}:
        same, other = ("fit", "do not fit") if verdicts == {1} else ("do not fit", "fit")
        raise InputError(
            f"All new judgments are about results that {same}. Judge some that {other}, too."
        )
    order = np.random.default_rng(settings.seed).permutation(sorted(tested))
    found: list[list[Any]] = [[], []]  # scores and verdicts, of the current and of new models
    for number in range(FOLDS):
        held_out = {int(at) for at in order[number::FOLDS]}
        rest = [query for at, query in enumerate(data.queries) if at not in held_out]
        title = f"Validating, part {number + 1} of {FOLDS}"
        hasher = fine_tune(_networks(original), replace(data, queries=rest), settings, title)
        test = replace(data, queries=[tested[at] for at in sorted(held_out)])
        for of_model, one in zip(found, (_networks(current), hasher), strict=True):
            of_model.append(judged_scores(one, test))
    before, after = (
        share_in_order(*map(np.concatenate, zip(*of_model, strict=True))) for of_model in found
    )
    return before, after


def _load(collection: Collection, name: str) -> Model:
    return collection.encoders.load(Path(collection.uri) / name)


def _save(collection: Collection, model: Model, n_judged: int) -> dict[str, Any]:
    """Write the model of the next generation to a folder of its own, and describe it."""
    number = generation_of(collection.index.about) + 1
    name = f"{MODEL_FOLDER}-{number}"
    model.save(Path(collection.uri) / name)
    about = {"model": name, "fingerprint": model.fingerprint, "judged": n_judged}
    return {**about, "generation": number}


def _stage_and_switch(collection: Collection, inputs: ItemInputs, new: Mapping[str, Any]) -> None:
    """Encode all items with a model, and make it the current one in one transaction."""
    index = _folder_index(collection)
    staging, model = Staging(index), _load(collection, new["model"])
    while True:
        _stage(staging, inputs, model)
        about = index.about
        current = {name: about.get(name) for name in ("fingerprint", "judged")}
        previous = {"model": about.get("model", MODEL_FOLDER), **current}
        switched = staging.exchange(
            model=new["model"],
            fingerprint=new["fingerprint"],
            judged=new["judged"],
            generation=generation_of(about) + 1,
            previous=previous,
            staged=about["fingerprint"],
            pending=None,
        )
        if switched:  # otherwise items were added or changed meanwhile
            break
    index.view()
    _clean(Path(collection.uri), {new["model"], previous["model"], MODEL_FOLDER})


def _stage(staging: Staging, inputs: ItemInputs, model: Model) -> None:
    """Encode and store the codes of all items that have no staged ones."""
    index, n_done = staging.index, staging.n_staged()
    while len(ids := staging.missing(BATCH)):
        version = staging.version()
        encoded = _encode(inputs, model, ids)
        n_done += staging.stage(ids, encoded, version)  # without items changed since the version
        report("Encoding", n_done, max(len(index), n_done))


def _encode(inputs: ItemInputs, model: Model, ids: NDArray[np.int64]) -> Codings:
    encoded: Codings = {}
    for modality, read, embed in (
        ("image", inputs.images, model.hasher.embed_image),
        ("text", inputs.texts, model.hasher.embed_text),
    ):
        rows, vectors = read(ids)
        if len(rows):
            continuous = embed(vectors)
            packed = pack_continuous(continuous) if stores_continuous(inputs.index) else None
            encoded[modality] = rows, Codes.from_continuous(continuous), packed
    return encoded


def _clean(folder: Path, used: set[str]) -> None:
    """Delete models that neither the current nor the previous generation uses."""
    for path in (*folder.glob(f"{MODEL_FOLDER}-*"), *folder.glob(f".{MODEL_FOLDER}-*")):
        if path.name not in used:
            shutil.rmtree(path, ignore_errors=True)
