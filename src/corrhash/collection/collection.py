"""Collection: images and texts with their hash codes, stored in an index and searched by either."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar, cast

from corrhash._files import absolute_path
from corrhash._progress import report, steps_of
from corrhash.codes import Codes, check_n_bits
from corrhash.collection.adding import add_batch, check_preview_size, root_of
from corrhash.collection.base import (
    Added,
    DuplicateGroup,
    Match,
    Query,
    SearchableCollection,
    SearchOptions,
)
from corrhash.collection.copying import copy_collection
from corrhash.collection.creating import MODEL_FOLDER, creating_in
from corrhash.collection.deleting import delete_items, prune
from corrhash.collection.generations import Encoder, Encoders, generation_of, model_folder
from corrhash.collection.judging import (
    Judgment,
    as_verdict,
    of_image,
    read_judgments,
    store_judgments,
)
from corrhash.collection.search import encode_queries, find_matches, stores_continuous
from corrhash.collection.updating import update_batch
from corrhash.datasets.base import PairedDataset
from corrhash.datasets.images import PREVIEW_SIZE
from corrhash.datasets.records import Record, UnreadableRecord, as_record, dataset_records
from corrhash.errors import InputError
from corrhash.index import ENGINES, FOLDER, CodeIndex, engine_of
from corrhash.index.filters import Filter
from corrhash.index.items import SHOWN, Item
from corrhash.index.ranking import Ranking
from corrhash.methods.base import Hasher
from corrhash.methods.ready_codes import READY_CODES, ReadyCodes
from corrhash.model import Model, as_model

T = TypeVar("T")


BATCH = 512
"""Items that are encoded together and written in one transaction."""


class Collection(SearchableCollection):
    """Images and texts encoded by one model, added and searched by key, text or image.

    The URI selects the storage: ``memory:``, a folder, or ``milvus://host:port/name``. Every write
    is durable when it returns, except in memory. Adding an existing key updates the item.

    Examples
    --------
    >>> from corrhash.datasets import load_dataset
    >>> from corrhash.methods import METHODS
    >>> split = load_dataset("synthetic")
    >>> model = Model(METHODS["cvh"](n_bits=32).fit(split.train), split.reader)
    >>> collection = Collection.create("memory:", model)
    >>> collection.add_pairs(split.database.take(range(100))).new
    100
    >>> matches = collection.search(split.query.texts[:1], k=3)  # a row of terms per query
    >>> matches[0][0].key
    'pair 14'
    """

    def __init__(
        self, uri: str, index: CodeIndex, model: Model, encoders: Encoders | None = None
    ) -> None:
        self.uri = uri
        self.index = index
        self.encoders = encoders or Encoders(uri, index, Encoder(generation_of(index.about), model))

    @property
    def model(self) -> Model:
        """The model that encodes items and queries; ``corrhash improve`` can replace it."""
        return self.encoders.current().model

    @classmethod
    def create(
        cls,
        uri: str | Path,
        model: Model | str | Path | None = None,
        *,
        n_bits: int | None = None,
        store_continuous: bool = False,
        preview_size: int = PREVIEW_SIZE,
        root: str | Path = ".",
    ) -> Collection:
        """Create a collection.

        Parameters
        ----------
        uri : ``memory:``, a new or empty folder, or ``milvus://host:port/name``.
        model : the model that encodes items and queries, or its folder. ``Model(hasher)`` wraps a
            fitted hasher. A collection in a folder keeps a copy. Without a model, items must have
            ready codes, see :class:`Record`.
        n_bits : code length of a collection without a model.
        store_continuous : also store continuous codes, two bytes per bit, for more accurate
            re-ranking.
        preview_size : longest side of the stored images, 256 to 2048 pixels.
        root : folder that the paths of image files are stored relative to if they lie below it,
            so that it can be moved (:meth:`set_root`); the current folder by default.
        """
        uri, model = str(uri), _model_or_ready_codes(model, n_bits)
        engine = engine_of(uri)
        if engine.look(uri) is not None:
            raise InputError(
                f"A collection already exists at {uri}. Open it, or choose another URI."
            )
        about = {
            "fingerprint": model.fingerprint,
            "method": model.hasher.import_path,
            "store_continuous": store_continuous,
            "preview_size": check_preview_size(preview_size),
            "root": str(absolute_path(root)),
        }
        in_folder = engine is ENGINES[FOLDER]
        with creating_in(Path(uri)) if in_folder else nullcontext():
            if in_folder and engine.look(uri) is None:
                model.save(Path(uri) / MODEL_FOLDER)
            index = engine.open(uri, model.n_bits, about)
        # Another process may have created it meanwhile, which is fine if it used the same model.
        _check_fingerprint(uri, index.about, model)
        return cls(uri, index, model)

    @classmethod
    def open(
        cls,
        uri: str | Path,
        model: Model | str | Path | None = None,
        method: type[Hasher] = Hasher,
        *,
        allow_download: bool = False,
    ) -> Collection:
        """Open an existing collection.

        Parameters
        ----------
        uri : URI of the collection.
        model : the model that encoded the collection, or its folder. A collection in a folder
            contains a copy and needs none.
        method : class of the hasher, if it is not in ``METHODS``.
        allow_download : whether an encoder that the model names may be downloaded.
        """
        uri = str(uri)
        engine = engine_of(uri)
        about = engine.look(uri)
        if about is None:
            raise InputError(f"No collection at {uri}. Create one with corrhash index.")
        if model is None:
            if about.get("method") == READY_CODES:
                model = Model(ReadyCodes(about["n_bits"]))
            elif engine is not ENGINES[FOLDER]:
                raise InputError(
                    f"The collection at {uri} does not contain its model. Pass it: --model on the "
                    "command line, model= in Python."
                )
            else:
                model = model_folder(uri, about)
        how: dict[str, Any] = {"allow_download": allow_download}
        model = as_model(model, method, **how)
        _check_fingerprint(uri, about, model)
        index = engine.open(uri, model.n_bits)
        encoder = Encoder(generation_of(about), model)
        return cls(uri, index, model, Encoders(uri, index, encoder, method, **how))

    @property
    def n_bits(self) -> int:
        """Code length."""
        return self.model.n_bits

    @property
    def stores_continuous(self) -> bool:
        """Whether items keep continuous codes beside their binary codes."""
        return stores_continuous(self.index)

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        about = f"{len(self):,} items, {self.model.method} of {self.n_bits} bits"
        return f"Collection({self.uri}: {about})"

    def info(self) -> dict[str, Any]:
        """Return the statistics of the collection."""
        return {
            "uri": self.uri,
            "items": len(self),
            "bits": self.n_bits,
            "method": self.model.method,
            "stores_continuous": self.stores_continuous,
            "fingerprint": self.index.about["fingerprint"],
            "root": str(self.root),
        }

    def _search(self, query: Query, options: SearchOptions) -> list[list[Match]]:
        def search(model: Model) -> list[list[Match]]:
            queries = encode_queries(query, model, self.index)
            return find_matches(self.index, queries, options, model.calibration)

        return self.encoders.consistent(search)

    def _judge(self, query: Query, item: str, fits: bool | None, find: str) -> None:
        verdict, value, features = as_verdict(fits), query.values[0], ""
        if query.kind == "image":
            value, features = of_image(value, self.model)
        elif not isinstance(value, str):
            raise InputError("The text of a judged query must be a string, got a term vector.")
        kind = cast("Any", query.kind)
        judgment = Judgment(kind, value, item, verdict, find, features=features)
        store_judgments(self.index, [judgment])

    def judgments(self) -> list[Judgment]:
        """Return all judgments that hold, oldest first; withdrawn ones are left out."""
        return read_judgments(self.index)

    def add_judgments(self, judgments: Iterable[Judgment]) -> None:
        """Store judgments, such as those of a click log, in one write."""
        store_judgments(self.index, list(judgments))

    def nearest(self, codes: Codes, k: int = 10, find: str = "image", **options: Any) -> Ranking:
        """Return ids and Hamming distances only; ``options`` can be ``where`` and ``radius``."""
        return self.index.search(codes, k, modality=find, **options)

    def add(
        self,
        records: Iterable[Record | UnreadableRecord | Mapping[str, Any]],
        *,
        batch: int = BATCH,
        total: int | None = None,
    ) -> Added:
        """Encode and store records; see :meth:`SearchableCollection.add`.

        Records are consumed lazily and each batch is written atomically, so an interrupted ``add``
        can be repeated. If ``records`` raises an error, the records before it are stored.
        """
        added, done = Added(), 0
        for some in _batches(records, batch):
            usable = [as_record(value) for value in some if not isinstance(value, UnreadableRecord)]
            skipped = {one.key: one.reason for one in some if isinstance(one, UnreadableRecord)}
            with steps_of("Adding", done, len(some), total):
                add = partial(add_batch, self.index, records=usable)
                added += self.encoders.written(add) + Added(skipped=skipped)
            done += len(some)
            report("Adding", done, max(total or done, done))
        return added

    def add_pairs(
        self, pairs: PairedDataset, raw: PairedDataset | None = None, *, batch: int = BATCH
    ) -> Added:
        """Encode and store the items of a dataset.

        ``raw`` contains the same items as images and strings, if ``pairs`` contains vectors.
        """
        return self.add(dataset_records(pairs, raw), batch=batch, total=len(pairs))

    def update_many(
        self,
        changes: Iterable[Mapping[str, Any]],
        *,
        batch: int = BATCH,
        total: int | None = None,
    ) -> Added:
        """Change items and encode what changed; see :meth:`SearchableCollection.update_many`.

        A batch is written atomically. A later :meth:`add` of the record that an item was made from
        does not undo the changes, unless the record itself has changed.
        """
        updated, done = Added(), 0
        for some in _batches(changes, batch):
            update = partial(update_batch, self.index, changes=some)
            updated += self.encoders.written(update)
            done += len(some)
            report("Updating", done, max(total or done, done))
        return updated

    def delete(
        self,
        keys: str | Iterable[str] | None = None,
        *,
        where: str | Filter | None = None,
        dry_run: bool = False,
    ) -> int:
        """Delete items by key, filter or both; see :meth:`SearchableCollection.delete`."""
        return delete_items(self.index, keys, where, dry_run=dry_run)

    def duplicates(self, max_distance: int | None = None) -> list[DuplicateGroup]:
        """Return groups of equal images; see :meth:`SearchableCollection.duplicates`."""
        from corrhash.collection.duplicates import find_duplicates

        by_code = isinstance(self.model.hasher, ReadyCodes)
        return find_duplicates(self.index, max_distance, by_code=by_code)

    def prune(self, folder: str | Path) -> int:
        """Delete the items whose files were below a folder and are gone; return how many.

        Raises an error if the folder does not exist or is empty, since it may be a disk that is
        not connected.
        """
        return prune(self.index, folder)

    @property
    def root(self) -> Path:
        """Folder that the paths of items are relative to; others are absolute."""
        return Path(root_of(self.index))

    def set_root(self, folder: str | Path) -> None:
        """Set the folder that the paths of items are relative to, after it was moved."""
        if not Path(folder).is_dir():
            raise InputError(f"Folder not found: {folder}. Pass the folder that holds the images.")
        self.index.describe(root=str(absolute_path(folder)))

    def set_preview_size(self, size: int) -> None:
        """Set the longest side of the images that are stored from now on."""
        self.index.describe(preview_size=check_preview_size(size))

    def file_of(self, item: Item) -> Path:
        """Return the image file of an item that has a path."""
        return self.root / item.path

    def get(self, key: str, fields: Sequence[str] = SHOWN) -> Item:
        """Return an item with the given fields."""
        return self._find(key, fields)[1]

    def items_of(self, ids: Sequence[int], fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """Return items by id; None for an id that does not exist."""
        return self.index.get(ids, fields)

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """Return the ids of the keys that exist."""
        return self.index.ids_of(keys)

    def codes_of(self, ids: Sequence[int], modality: str) -> dict[int, Codes]:
        """Return the code of one modality for each id that has one."""
        rows, codes = self.index.codes_of(ids, modality)
        return {ids[row]: codes[[at]] for at, row in enumerate(rows.tolist())}

    def first_items(self, n: int) -> list[Item]:
        """Return the ``n`` items with the lowest ids."""
        return [item for some in islice(self.index.batches(n, SHOWN), 1) for item in some.items]

    def _find(self, key: str, fields: Sequence[str]) -> tuple[int, Item]:
        """The id of a key, and its item."""
        number = self.index.ids_of([key]).get(key)
        (item,) = [None] if number is None else self.index.get([number], fields)
        if number is None or item is None:
            raise InputError(f"No item with the key {key!r} in this collection.")
        return number, item

    def copy_to(self, uri: str | Path) -> Collection:
        """Copy the collection to another URI and verify it; repeat the call if interrupted."""
        return copy_collection(self, str(uri))


def _batches(values: Iterable[T], size: int) -> Iterator[list[T]]:
    """Yield lists of ``size`` values; before an error, the values that precede it."""
    batch: list[T] = []
    try:
        for value in values:
            batch.append(value)
            if len(batch) == size:
                yield batch
                batch = []
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _model_or_ready_codes(model: Model | str | Path | None, n_bits: int | None) -> Model:
    """Return the model of a new collection; without one, what stands for it."""
    if (model is None) == (n_bits is None):
        raise InputError(
            "Pass either the model that encodes items, or n_bits, the length of precomputed codes; "
            f"got {'neither' if model is None else 'both'}."
        )
    return Model(ReadyCodes(check_n_bits(n_bits))) if model is None else as_model(model)


def _check_fingerprint(uri: str, about: Mapping[str, Any], model: Model) -> None:
    """Raise an error unless the codes of a collection come from this model."""
    stored = str(about.get("fingerprint"))
    if model.fingerprint != stored:
        raise InputError(
            f"{uri} was encoded with another model: expected fingerprint {stored[:12]}, got "
            f"{model.fingerprint[:12]}. Use the original model, or create a new collection."
        )
