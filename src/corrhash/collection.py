"""Collection: pictures and texts that answer searches at once and are not lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corrhash.codes import Codes, check_codes
from corrhash.collection_folder import MODEL_FOLDER, creating_in
from corrhash.datasets.base import PairedDataset, without_words
from corrhash.datasets.reader import Reader
from corrhash.encoder import Encoded, encode_records
from corrhash.errors import InputError
from corrhash.index import ENGINES, FOLDER, CodeIndex, engine_of
from corrhash.index.base import check_k
from corrhash.index.contents import checksum
from corrhash.index.item import FIELDS, SHOWN, SIDES, Item
from corrhash.matches import Match, check_offset, find_matches, keeps_scores, vectors_of
from corrhash.methods.base import Hasher
from corrhash.progress import report
from corrhash.ranking import Ranking
from corrhash.records import Record, Unusable, as_record, open_picture, pair_records
from corrhash.saved_model import fingerprint, load_model, read_training, save_model

__all__ = ["Added", "Collection", "Match"]

BATCH = 512
"""Items that are encoded together and written in one commit."""

Model = tuple[Hasher, Reader]


@dataclass(frozen=True)
class Added:
    """What became of the items that were to be added; ``skipped`` says why, by key."""

    new: int = 0
    updated: int = 0
    unchanged: int = 0
    skipped: Mapping[str, str] = field(default_factory=dict)

    def __add__(self, other: Added) -> Added:
        return Added(
            self.new + other.new,
            self.updated + other.updated,
            self.unchanged + other.unchanged,
            {**self.skipped, **other.skipped},
        )


class Collection:
    """Pictures and texts under a model: added, searched by words and by pictures, kept.

    An address decides where: ``memory:``, a folder, or ``milvus://host:port/name``. Every add is
    durable when it returns (but in memory), and adding a key that is there is an update.

    Examples
    --------
    >>> from corrhash.datasets import load_dataset
    >>> from corrhash.methods import METHODS
    >>> split = load_dataset("synthetic")
    >>> hasher = METHODS["cvh"](n_bits=32).fit(split.train)
    >>> collection = Collection.create("memory:", hasher, split.reader)
    >>> collection.add_pairs(split.database.take(range(100))).new
    100
    >>> collection.search_words(split.query.texts[:1], k=3)[0][0].key
    'pair 14'
    """

    def __init__(self, uri: str, index: CodeIndex, hasher: Hasher, reader: Reader) -> None:
        self.uri = uri
        self.index = index
        self.hasher = hasher
        self.reader = reader

    @classmethod
    def create(
        cls,
        uri: str | Path,
        hasher: Hasher,
        reader: Reader | None = None,
        *,
        store_scores: bool = False,
        training: Mapping[str, Any] | None = None,
    ) -> Collection:
        """A new collection at an address.

        ``store_scores`` keeps the scores of items before they are rounded to codes, two bytes a
        bit, which makes the first answers better. ``training`` is what a folder keeps of the
        training beside its model: ``TrainedModel.training``.
        """
        uri, reader = str(uri), reader or Reader()
        engine = engine_of(uri)
        if engine.look(uri) is not None:
            raise InputError(
                f"There is a collection at {uri} already. Open it, or choose another address."
            )
        about = {
            "fingerprint": fingerprint(hasher, reader),
            "method": hasher.place,
            "store_scores": store_scores,
        }
        keeps_model = engine is ENGINES[FOLDER]
        with creating_in(Path(uri)) if keeps_model else nullcontext():
            if keeps_model and engine.look(uri) is None:
                save_model(Path(uri) / MODEL_FOLDER, hasher, reader, training)
            index = engine.open(uri, hasher.n_bits, about)
        # Another process may have been faster, which does no harm with the same model.
        _check_codes_of(uri, index.about, hasher, reader)
        return cls(uri, index, hasher, reader)

    @classmethod
    def open(
        cls,
        uri: str | Path,
        model: str | Path | Model | None = None,
        method: type[Hasher] = Hasher,
    ) -> Collection:
        """The collection at an address.

        ``model``, the folder of a model or a hasher and its reader, must be the one whose codes
        the collection holds. A folder keeps a copy of it, so that it need not be given; ``method``
        is the class, if it is not in ``METHODS``.
        """
        uri = str(uri)
        engine = engine_of(uri)
        about = engine.look(uri)
        if about is None:
            raise InputError(f"There is no collection at {uri}. Make one with corrhash index.")
        if model is None:
            model = Path(uri) / MODEL_FOLDER
            if engine is not ENGINES[FOLDER]:
                raise InputError(
                    f"A collection at {uri} does not hold its model. Say which it is: --model, or "
                    "model= in Python."
                )
        hasher, reader = model if isinstance(model, tuple) else load_model(model, method)
        _check_codes_of(uri, about, hasher, reader)
        return cls(uri, engine.open(uri, hasher.n_bits), hasher, reader)

    @property
    def n_bits(self) -> int:
        """Length of the codes."""
        return self.hasher.n_bits

    @property
    def _method(self) -> str:
        """The name of the method, also where its networks were exported."""
        return self.hasher.place.rpartition(":")[2]

    @property
    def stores_scores(self) -> bool:
        """Whether items keep their scores beside their codes."""
        return keeps_scores(self.index)

    @property
    def training(self) -> dict[str, Any] | None:
        """What a folder keeps of the training of its model; None where nothing is known."""
        keeps_model = isinstance(self.index, ENGINES[FOLDER])
        return read_training(Path(self.uri) / MODEL_FOLDER) if keeps_model else None

    def __len__(self) -> int:
        return len(self.index)

    def __repr__(self) -> str:
        return f"Collection({self.uri}: {len(self):,} items, {self._method} of {self.n_bits} bits)"

    # Adding

    def add(
        self,
        records: Iterable[Record | Unusable | Mapping[str, Any]],
        *,
        batch: int = BATCH,
        total: int | None = None,
    ) -> Added:
        """Encode and keep items; those that are there unchanged are not encoded again.

        Records are read as they come, so that there may be any number of them. Each batch is there
        as a whole once it is written: an interrupted add is simply started again.

        Pictures that cannot be read and texts without a known word are skipped, and told, as are
        items that a source found unusable.
        """
        stream, added, done = iter(records), Added(), 0
        while some := list(islice(stream, batch)):
            usable = [as_record(value) for value in some if not isinstance(value, Unusable)]
            skipped = {one.key: one.reason for one in some if isinstance(one, Unusable)}
            added += self._add_batch(usable) + Added(skipped=skipped)
            done += len(some)
            report("Adding", done, max(total or done, done))
        return added

    def add_pairs(
        self, pairs: PairedDataset, shown: PairedDataset | None = None, *, batch: int = BATCH
    ) -> Added:
        """Encode and keep the items of a dataset.

        ``shown`` are the same items before the reader made vectors of them: pictures and strings.
        """
        return self.add(pair_records(pairs, shown), batch=batch, total=len(pairs))

    def _add_batch(self, records: list[Record]) -> Added:
        by_key = {record.key: record for record in records}  # of equal keys the last one counts
        stamps = {key: record.stamp() for key, record in by_key.items()}
        unchanged = self._unchanged(stamps)
        fresh = [record for key, record in by_key.items() if key not in unchanged]
        encoded = self._encode(fresh)
        items = [replace(item, stamp=stamps[item.key]) for item in encoded.items]
        known = self._put(items, encoded.codes)
        return Added(len(items) - known, known, len(unchanged), encoded.skipped)

    def _encode(self, records: list[Record]) -> Encoded:
        return encode_records(records, self.hasher, self.reader, keep_scores=self.stores_scores)

    def _unchanged(self, stamps: Mapping[str, str]) -> set[str]:
        ids = self.index.ids_of(list(stamps))
        kept = self.index.get(list(ids.values()), ["stamp"])
        return {
            key
            for key, item in zip(ids, kept, strict=True)
            if item is not None and item.stamp == stamps[key]
        }

    def _put(self, items: list[Item], codes: dict[str, tuple[NDArray[np.int64], Codes]]) -> int:
        """Keep items under the ids of their keys, or new ones; how many keys were there."""
        if not items:
            return 0
        with self.index.writing():
            known = self.index.ids_of([item.key for item in items])
            new = iter(self.index.new_ids(len(items) - len(known)).tolist())
            ids = [known[item.key] if item.key in known else next(new) for item in items]
            self.index.upsert(ids, codes, items)
        return len(known)

    def update(self, key: str, **changes: Any) -> None:
        """Change some of an item: image, text, labels or metadata; what changed is encoded again.

        ``text=""`` takes the text away. A picture that cannot be read and a text without a known
        word are errors, and leave the item as it is.
        """
        allowed = ("image", "text", "labels", "metadata")
        for name in changes:
            if name not in allowed:
                raise InputError(f"Items have no {name!r} to change. Choose: {', '.join(allowed)}.")
        fresh = self._encode_sides(key, changes)
        with self.index.writing():
            number, old = self._there(key, FIELDS)
            codes = {side: self.index.codes_of([number], side)[1] for side in SIDES}
            kept = {name: value for name, value in changes.items() if name != "image"}
            item = replace(old, stamp="", **kept)
            for side, (of_side, encoded) in fresh.items():
                codes[side] = of_side
                names = [f"{side}_scores", *(("path", "thumbnail") if side == "image" else ())]
                item = replace(item, **{name: getattr(encoded, name) for name in names})
            if changes.get("text") == "":
                codes["text"], item = codes["text"][:0], replace(item, text_scores=None)
            if not any(len(of_side) for of_side in codes.values()):
                raise InputError(f"{key!r} would have neither picture nor text. Delete it instead.")
            one = np.zeros(1, dtype=np.int64)
            self.index.upsert([number], {s: (one[: len(c)], c) for s, c in codes.items()}, [item])

    def _encode_sides(self, key: str, changes: Mapping[str, Any]) -> dict[str, tuple[Codes, Item]]:
        """The code of a new picture and of a new text, and what is kept of each."""
        # A record for each side: one that cannot be encoded is told, whatever becomes of the other.
        records = []
        if changes.get("image") is not None:
            records.append(Record(key, changes["image"]))
        if changes.get("text"):
            records.append(Record(key, text=changes["text"]))
        encoded = self._encode(records)
        for reason in encoded.skipped.values():
            raise InputError(f"{key!r} stays as it is. {reason}")
        return {
            side: (codes, encoded.items[rows[0]]) for side, (rows, codes) in encoded.codes.items()
        }

    def delete(self, keys: str | Iterable[str]) -> int:
        """Forget items by key; how many of them were there."""
        names = [keys] if isinstance(keys, str) else list(keys)
        with self.index.writing():
            return self.index.delete(list(self.index.ids_of(names).values()))

    def get(self, key: str, fields: Sequence[str] = SHOWN) -> Item:
        """What is kept of an item."""
        return self._there(key, fields)[1]

    def items_of(self, ids: Sequence[int], fields: Sequence[str] = SHOWN) -> list[Item | None]:
        """What is kept of items, by the ids of matches; None where there is none."""
        return self.index.get(ids, fields)

    def ids_of(self, keys: Sequence[str]) -> dict[str, int]:
        """The ids of those keys that there are."""
        return self.index.ids_of(keys)

    def codes_of(self, ids: Sequence[int], side: str) -> dict[int, Codes]:
        """The code of the picture or of the text of each item that has one, by id."""
        rows, codes = self.index.codes_of(ids, side)
        return {ids[row]: codes[[at]] for at, row in enumerate(rows.tolist())}

    def first_items(self, n: int) -> list[Item]:
        """The items that have been there longest, to tell what a collection is about."""
        return [item for entries in islice(self.index.batches(n), 1) for item in entries.items]

    def _id_of(self, key: str) -> int:
        ids = self.index.ids_of([key])
        if key not in ids:
            raise self._no_item(key)
        return ids[key]

    def _there(self, key: str, fields: Sequence[str]) -> tuple[int, Item]:
        """The id of an item and what is kept of it."""
        number = self._id_of(key)
        (item,) = self.index.get([number], fields)
        if item is None:  # it was deleted this moment
            raise self._no_item(key)
        return number, item

    def _no_item(self, key: str) -> InputError:
        return InputError(f"There is no item {key!r} in {self.uri}. Check the key.")

    # Searching

    def search_text(self, text: str, k: int = 10, find: str = "image", **how: Any) -> list[Match]:
        """Items for words: pictures, or with ``find="text"`` texts.

        ``how`` is as for :meth:`search_words`.
        """
        return self.search_words([text], k, find, **how)[0]

    def search_image(self, image: Any, k: int = 10, find: str = "text", **how: Any) -> list[Match]:
        """Items for a picture (a path, an opened image, an array or a feature vector).

        Finds texts, or with ``find="image"`` pictures; ``how`` is as for :meth:`search_pictures`.
        """
        vector = getattr(image, "ndim", 0) == 1
        return self.search_pictures(image[None] if vector else [image], k, find, **how)[0]

    def search_words(
        self, texts: Any, k: int = 10, find: str = "image", **how: Any
    ) -> list[list[Match]]:
        """Items for each of several texts, or for each row of word occurrences.

        Parameters
        ----------
        k : how many.
        find : ``image`` or ``text``: by which of its codes an item is found.
        where : a filter, as ``year >= 2015 and 'dog' in labels``.
        radius : how many bits may differ at most.
        offset : leave out so many of the first, for paging.
        rerank : rank the nearest 100 once more, by real-valued scores.
        thumbnails : whether matches carry their small pictures.
        """
        return self.search_scores(self.score_words(texts), k, find, **how)

    def score_words(self, texts: Any) -> NDArray[Any]:
        """(n, n_bits) scores of texts, whose signs are their codes."""
        if isinstance(texts, list):
            texts = [_check_words(text) for text in texts]
        read = self.reader.read_texts(texts)
        for row in np.flatnonzero(without_words(read)):
            asked = repr(texts[row]) if isinstance(texts, list) else f"query {row}"
            raise InputError(
                f"The model knows no word of {asked}. Use words as they occur in the texts it was "
                "trained on."
            )
        return self.hasher.score_text(read)

    def search_pictures(
        self, images: Any, k: int = 10, find: str = "text", **how: Any
    ) -> list[list[Match]]:
        """Items for each of several pictures or feature vectors, as :meth:`search_words`."""
        return self.search_scores(self.score_pictures(images), k, find, **how)

    def score_pictures(self, images: Any) -> NDArray[Any]:
        """(n, n_bits) scores of pictures or feature vectors, whose signs are their codes."""
        if getattr(images, "ndim", 0) != 2:
            images = [open_picture(image) for image in images]
        return self.hasher.score_image(self.reader.read_images(images))

    def search_item(
        self, key: str, k: int = 10, find: str = "image", *, offset: int = 0, **how: Any
    ) -> list[Match]:
        """Items like one that is there, itself left out; by its picture if it has one.

        ``how`` is as for :meth:`search_words`.
        """
        k, offset, number = check_k(k), check_offset(offset), self._id_of(key)
        side, codes = self._side_of(number)
        scores = (
            vectors_of(self.index, [number], side)[number][None]
            if how.pop("rerank", True)
            else None
        )
        # It stands somewhere among those at distance 0, or is not found by this side at all.
        (found,) = find_matches(self.index, codes, scores, offset + k + 1, find, **how)
        return [match for match in found if match.id != number][offset : offset + k]

    def code_of(self, key: str) -> Codes:
        """The code by which :meth:`search_item` searches."""
        return self._side_of(self._id_of(key))[1]

    def _side_of(self, number: int) -> tuple[str, Codes]:
        """The side by which an item searches, and its code."""
        for side in SIDES:
            _, codes = self.index.codes_of([number], side)
            if len(codes):
                return side, codes
        raise InputError(f"Item {number} of {self.uri} has just been deleted.")

    def search_codes(
        self, codes: Codes, k: int = 10, find: str = "image", **how: Any
    ) -> list[list[Match]]:
        """Items for each of several codes; there is nothing to rank them by once more."""
        return find_matches(self.index, check_codes(codes), None, k, find, **how)

    def nearest(self, codes: Codes, k: int = 10, find: str = "image", **how: Any) -> Ranking:
        """Ids and distances alone, for those who need no items; ``where`` and ``radius`` too."""
        return self.index.search(codes, k, side=find, **how)

    def search_scores(
        self,
        scores: NDArray[Any],
        k: int = 10,
        find: str = "image",
        *,
        codes: Codes | None = None,
        rerank: bool = True,
        **how: Any,
    ) -> list[list[Match]]:
        """Items for each row of what :meth:`score_words` or :meth:`score_pictures` gave.

        ``codes`` are those of the queries, where ``hasher.query_codes`` has made them already.
        """
        if codes is None:
            codes = self.hasher.query_codes(scores)
        return find_matches(self.index, codes, scores if rerank else None, k, find, **how)

    # Moving

    def info(self) -> dict[str, Any]:
        """What there is to know about the collection."""
        return {
            "address": self.uri,
            "items": len(self),
            "bits": self.n_bits,
            "method": self._method,
            "stores scores": self.stores_scores,
            "fingerprint": self.index.about["fingerprint"],
        }

    def copy_to(self, uri: str | Path) -> Collection:
        """A copy at another address, verified; one that was interrupted is started again."""
        uri = str(uri)
        if engine_of(uri).look(uri) is None:
            copy = Collection.create(
                *(uri, self.hasher, self.reader),
                store_scores=self.stores_scores,
                training=self.training,
            )
        else:
            copy = Collection.open(uri, (self.hasher, self.reader))
        total, done = len(self), 0
        for entries in self.index.batches():
            sides = {side: (entries.rows[side], codes) for side, codes in entries.codes.items()}
            copy.index.upsert(entries.ids, sides, entries.items)
            done += len(entries)
            report("Copying", done, max(total, done))
        here, there = checksum(self.index), checksum(copy.index)
        if here != there:
            raise InputError(
                f"{uri} differs from {self.uri}: {len(copy):,} and {len(self):,} items, checksums "
                f"{there[:12]} and {here[:12]}. It held other items before, or somebody wrote "
                "meanwhile. Copy to a new address."
            )
        return copy


def _check_words(text: Any) -> str:
    if not isinstance(text, str):
        raise InputError(f"Words to search with are a text. Got {text!r}.")
    return text


def _check_codes_of(uri: str, about: Mapping[str, Any], hasher: Hasher, reader: Reader) -> None:
    """Whether the codes of a collection are those of a model."""
    own, kept = fingerprint(hasher, reader), about.get("fingerprint")
    if own != kept:
        raise InputError(
            f"The codes in {uri} are not of this model: its fingerprint is {own[:12]}, that of "
            f"the collection {str(kept)[:12]}. Use the model it was made with, or make a new "
            "collection."
        )
