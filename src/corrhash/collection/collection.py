"""Collection: images and texts with their hash codes, stored in an index and searched by either."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from numpy.typing import NDArray

from corrhash._files import backup_path, is_temporary, make_folder
from corrhash._progress import report
from corrhash.codes import Codes
from corrhash.collection.base import Added, Match, Query, SearchableCollection, SearchOptions
from corrhash.collection.encoding import Encoded, encode_records
from corrhash.collection.search import encode_queries, find_matches, stores_continuous
from corrhash.datasets.base import PairedDataset
from corrhash.datasets.records import Record, UnreadableRecord, as_record, dataset_records
from corrhash.errors import InputError
from corrhash.index import ENGINES, FOLDER, CodeIndex, engine_of
from corrhash.index.base import checksum
from corrhash.index.items import FIELDS, MODALITIES, SHOWN, Item
from corrhash.index.ranking import Ranking
from corrhash.index.sqlite_storage import DATABASE_FILE
from corrhash.methods.base import Hasher
from corrhash.model import Model, as_model

MODEL_FOLDER = "model"
"""Subfolder with a copy of the model that encoded the collection."""

CREATING_LOCK = ".creating.lock"
WRITTEN_ASIDE = (MODEL_FOLDER, DATABASE_FILE)
"""Names that a creation writes under a temporary name first."""

COLLECTION_FILES = {*WRITTEN_ASIDE, f"{DATABASE_FILE}-wal", f"{DATABASE_FILE}-shm", CREATING_LOCK}


@contextmanager
def creating_in(folder: Path) -> Iterator[None]:
    """Hold the creation lock of a folder, and remove what an interrupted creation left in it."""
    _check_new(folder)
    lock = FileLock(make_folder(folder) / CREATING_LOCK)
    try:
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"Cannot write to {folder}: {error.strerror}. Choose a writable folder."
        ) from error
    try:
        for path in folder.iterdir():  # their writer has ended, or it would hold the lock
            if _is_left_over(path):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
        yield
    finally:
        lock.release()


def _check_new(folder: Path) -> None:
    if folder.is_file():
        raise InputError(f"{folder} is a file. Choose a new or empty folder.")
    for path in folder.iterdir() if folder.exists() else ():
        if path.name not in COLLECTION_FILES and not _is_left_over(path):
            raise InputError(
                f"{folder} contains other files, such as {path.name}. Choose a new or empty folder."
            )


def _is_left_over(path: Path) -> bool:
    aside = backup_path(path.with_name(MODEL_FOLDER))
    return path == aside or any(is_temporary(path, name) for name in WRITTEN_ASIDE)


BATCH = 512
"""Items that are encoded together and written in one transaction."""

UPDATABLE = ("image", "text", "labels", "metadata")


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

    def __init__(self, uri: str, index: CodeIndex, model: Model) -> None:
        self.uri = uri
        self.index = index
        self.model = model

    @classmethod
    def create(
        cls,
        uri: str | Path,
        model: Model | str | Path,
        *,
        store_continuous: bool = False,
    ) -> Collection:
        """Create a collection.

        Parameters
        ----------
        uri : ``memory:``, a new or empty folder, or ``milvus://host:port/name``.
        model : the model that encodes items and queries, or its folder. ``Model(hasher)`` wraps a
            fitted hasher. A collection in a folder keeps a copy.
        store_continuous : also store continuous codes, two bytes per bit, for more accurate
            re-ranking.
        """
        uri, model = str(uri), as_model(model)
        engine = engine_of(uri)
        if engine.look(uri) is not None:
            raise InputError(
                f"A collection already exists at {uri}. Open it, or choose another URI."
            )
        about = {
            "fingerprint": model.fingerprint,
            "method": model.hasher.import_path,
            "store_continuous": store_continuous,
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
    ) -> Collection:
        """Open an existing collection.

        Parameters
        ----------
        uri : URI of the collection.
        model : the model that encoded the collection, or its folder. A collection in a folder
            contains a copy and needs none.
        method : class of the hasher, if it is not in ``METHODS``.
        """
        uri = str(uri)
        engine = engine_of(uri)
        about = engine.look(uri)
        if about is None:
            raise InputError(f"No collection at {uri}. Create one with corrhash index.")
        if model is None:
            if engine is not ENGINES[FOLDER]:
                raise InputError(
                    f"The collection at {uri} does not contain its model. Pass it: --model on the "
                    "command line, model= in Python."
                )
            model = Path(uri) / MODEL_FOLDER
        model = as_model(model, method)
        _check_fingerprint(uri, about, model)
        return cls(uri, engine.open(uri, model.n_bits), model)

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
        }

    def _search(self, query: Query, options: SearchOptions) -> list[list[Match]]:
        return find_matches(self.index, encode_queries(query, self.model, self.index), options)

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
        can be repeated.
        """
        stream, added, done = iter(records), Added(), 0
        while some := list(islice(stream, batch)):
            usable = [as_record(value) for value in some if not isinstance(value, UnreadableRecord)]
            skipped = {one.key: one.reason for one in some if isinstance(one, UnreadableRecord)}
            added += self._add_batch(usable) + Added(skipped=skipped)
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

    def _add_batch(self, records: list[Record]) -> Added:
        by_key = {record.key: record for record in records}  # the last of equal keys wins
        stamps = {key: record.stamp() for key, record in by_key.items()}
        unchanged = self._unchanged(stamps)
        encoded = self._encode([r for key, r in by_key.items() if key not in unchanged])
        items = [replace(item, stamp=stamps[item.key]) for item in encoded.items]
        n_updated = self._upsert(items, encoded.codes)
        return Added(len(items) - n_updated, n_updated, len(unchanged), encoded.skipped)

    def _encode(self, records: list[Record]) -> Encoded:
        return encode_records(records, self.model, store_continuous=self.stores_continuous)

    def _unchanged(self, stamps: Mapping[str, str]) -> set[str]:
        """The keys of stored items that have the given stamps."""
        ids = self.index.ids_of(list(stamps))
        stored = zip(ids, self.index.get(list(ids.values()), ["stamp"]), strict=True)
        return {key for key, item in stored if item is not None and item.stamp == stamps[key]}

    def _upsert(self, items: list[Item], codes: dict[str, tuple[NDArray[np.int64], Codes]]) -> int:
        """Store items under the ids of their keys, or new ids; return how many keys existed."""
        if not items:
            return 0
        with self.index.writing():
            known = self.index.ids_of([item.key for item in items])
            new = [item.key for item in items if item.key not in known]
            ids = {**known, **dict(zip(new, self.index.new_ids(new).tolist(), strict=True))}
            self.index.upsert([ids[item.key] for item in items], codes, items)
        return len(known)

    def update(self, key: str, **changes: Any) -> None:
        """Change the image, text, labels or metadata of an item and encode what changed.

        ``text=""`` removes the text. If the image cannot be read or the text has no known term, an
        error is raised and the item is unchanged.
        """
        for name in changes:
            if name not in UPDATABLE:
                raise InputError(
                    f"Cannot update {name!r}. Fields that can change: {', '.join(UPDATABLE)}."
                )
        encoded = self._encode_changes(key, changes)
        with self.index.writing():
            number, old = self._find(key, FIELDS)
            codes = {name: self.index.codes_of([number], name)[1] for name in MODALITIES}
            kept = {name: value for name, value in changes.items() if name != "image"}
            item = replace(old, stamp="", **kept)
            for modality, (new_codes, new_item) in encoded.items():
                codes[modality] = new_codes
                names = [f"{modality}_continuous"]
                names += ["path", "thumbnail"] if modality == "image" else []
                item = replace(item, **{name: getattr(new_item, name) for name in names})
            if changes.get("text") == "":
                codes["text"], item = codes["text"][:0], replace(item, text_continuous=None)
            if not any(len(of_modality) for of_modality in codes.values()):
                raise InputError(
                    f"{key!r} would have neither an image nor a text. Delete it instead."
                )
            row = np.zeros(1, dtype=np.int64)
            self.index.upsert([number], {m: (row[: len(c)], c) for m, c in codes.items()}, [item])

    def _encode_changes(
        self, key: str, changes: Mapping[str, Any]
    ) -> dict[str, tuple[Codes, Item]]:
        """The code and the item of a new image and of a new text, by modality."""
        # One record per modality: a record with both would be kept if only one can be encoded.
        records = []
        if changes.get("image") is not None:
            records.append(Record(key, changes["image"]))
        if changes.get("text"):
            records.append(Record(key, text=changes["text"]))
        encoded = self._encode(records)
        for reason in encoded.skipped.values():
            raise InputError(f"Item {key!r} is unchanged. {reason}")
        return {
            modality: (codes, encoded.items[rows[0]])
            for modality, (rows, codes) in encoded.codes.items()
        }

    def delete(self, keys: str | Iterable[str]) -> int:
        """Delete items by key and return how many of them existed."""
        names = [keys] if isinstance(keys, str) else list(keys)
        with self.index.writing():
            return self.index.delete(list(self.index.ids_of(names).values()))

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
        return [item for entries in islice(self.index.batches(n), 1) for item in entries.items]

    def _find(self, key: str, fields: Sequence[str]) -> tuple[int, Item]:
        """The id of a key, and its item."""
        number = self.index.ids_of([key]).get(key)
        (item,) = [None] if number is None else self.index.get([number], fields)
        if number is None or item is None:
            raise InputError(f"No item with the key {key!r} in this collection.")
        return number, item

    def copy_to(self, uri: str | Path) -> Collection:
        """Copy the collection to another URI and verify it; repeat the call if interrupted."""
        uri = str(uri)
        if engine_of(uri).look(uri) is None:
            copy = Collection.create(uri, self.model, store_continuous=self.stores_continuous)
        elif Path(uri).resolve() == Path(self.uri).resolve():
            raise InputError("The destination is the collection itself. Copy to a new URI.")
        else:
            copy = Collection.open(uri, self.model)
        total, done = len(self), 0
        for entries in self.index.batches():
            codes = {name: (entries.rows[name], of) for name, of in entries.codes.items()}
            copy.index.upsert(entries.ids, codes, entries.items)
            done += len(entries)
            report("Copying", done, max(total, done))
        ours, theirs = checksum(self.index), checksum(copy.index)
        if ours != theirs:
            raise InputError(
                f"{uri} differs from {self.uri}: {len(copy):,} and {len(self):,} items, checksums "
                f"{theirs[:12]} and {ours[:12]}. It contained other items before, or one of them "
                "changed during the copy. Copy to a new URI."
            )
        return copy


def _check_fingerprint(uri: str, about: Mapping[str, Any], model: Model) -> None:
    """Raise an error unless the codes of a collection come from this model."""
    stored = str(about.get("fingerprint"))
    if model.fingerprint != stored:
        raise InputError(
            f"The codes in {uri} come from another model: expected fingerprint {stored[:12]}, got "
            f"{model.fingerprint[:12]}. Use the model that the collection was created with, or "
            "create a new collection."
        )
