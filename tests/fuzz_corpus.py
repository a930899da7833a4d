"""Targets of the fuzzer: readers of files from others, each with a small corpus of inputs."""

import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from scipy.sparse import csc_array

from corrhash import Codes, load_model
from corrhash.datasets import Reader, Vocabulary, make_pairs
from corrhash.datasets.formats import find_format
from corrhash.datasets.images import open_image
from corrhash.datasets.records import UnreadableRecord
from corrhash.index import Item, open_index
from corrhash.index.filter_grammar import format_filter, parse_filter
from corrhash.index.filters import holds
from corrhash.methods import METHODS
from corrhash.model import Model
from tests.collection.world import linear_calibration


@dataclass(frozen=True)
class Target:
    """A function of bytes that returns anything or raises an error of corrhash, and its corpus."""

    corpus: Callable[[], Iterable[bytes]]
    run: Callable[[bytes], Any]


FIELDS = {"year": 2015, "place": "Paris", "old": True, "labels": ("dog",), "key": "a", "text": "b"}


def filters(folder: Path) -> Target:
    """Filter expressions: parsed, written, parsed again, and applied."""

    def run(content: bytes) -> Any:
        where = parse_filter(content.decode("utf-8", "surrogateescape"))
        again = parse_filter(format_filter(where))
        if again != where or holds(again, FIELDS) != holds(where, FIELDS):
            raise AssertionError(f"{where} was written as {again}")
        return where

    texts = (
        "year >= 2015 and not ('dog' in labels or place = 'Paris')",
        "not not not (old = true or old != FALSE) and key < 'b''c'",
        'text = "a ""quoted"" word" or .5e-3 > 1',
        "ratio = -1.5e+3 and (((a=1)))",
        " or ".join(f"a{i} = {i}" for i in range(30)),
    )
    return Target(lambda: [text.encode() for text in texts], run)


def _file_target(folder: Path, name: str, corpus: Callable[[], Iterable[bytes]]) -> Target:
    """A file of a format: every record is read."""
    path = folder / name
    (folder / "a.png").write_bytes(_image("PNG"))

    def run(content: bytes) -> Any:
        path.write_bytes(content)
        kind, at = find_format(path)
        n = unreadable = 0
        for record in kind.read(at).records:
            n += 1
            if isinstance(record, UnreadableRecord):
                unreadable += 1
            else:
                record.stamp(record.path)
                record.item()
            if n > 1000:
                break
        return f"{min(n, 20)} {min(unreadable, 5)}"

    return Target(corpus, run)


ROWS = [
    {"image": "a.png", "text": "a boat", "labels": "boat|sea", "key": "k1", "year": "2015"},
    {"image": "a.png", "text": "two, words", "labels": "", "key": "k1", "year": "2016.5"},
    {"image": "b.png", "text": "café", "labels": "dog", "key": "k2", "year": ""},
]


def csv_files(folder: Path) -> Target:
    """CSV files."""

    def corpus() -> Iterable[bytes]:
        for delimiter in ",;\t":
            file = io.StringIO()
            writer = csv.DictWriter(file, list(ROWS[0]), delimiter=delimiter)
            writer.writeheader()
            writer.writerows(ROWS)
            yield file.getvalue().encode("utf-8-sig" if delimiter == ";" else "utf-8")
        yield b'image,"text"x\na.png,b\n'  # a heading that is not valid CSV

    return _file_target(folder, "a.csv", corpus)


def jsonl_files(folder: Path) -> Target:
    """JSON Lines files."""
    more = {"key": "k3", "features": [1.5, 2, -3e5], "metadata": {"a": True, "b": "c"}}

    def corpus() -> Iterable[bytes]:
        yield "\n".join(json.dumps(row) for row in [*ROWS, more]).encode()
        yield json.dumps({"image": {"bytes": None, "path": "a.png"}, "text": ["a", "b"]}).encode()

    return _file_target(folder, "a.jsonl", corpus)


def parquet_files(folder: Path) -> Target:
    """Parquet files."""
    import pyarrow
    import pyarrow.parquet

    def corpus() -> Iterable[bytes]:
        for compression in ("none", "snappy"):
            file = io.BytesIO()
            table = pyarrow.Table.from_pylist([{**row, "n": 7} for row in ROWS])
            pyarrow.parquet.write_table(table, file, compression=compression)
            yield file.getvalue()

    return _file_target(folder, "a.parquet", corpus)


def tar_files(folder: Path) -> Target:
    """Tar shards."""
    vector = io.BytesIO()
    np.save(vector, np.arange(4.0))
    members = {
        **{"1.png": _image("PNG"), "1.txt": b"a boat", "1.json": b'{"labels": ["a"], "year": 1}'},
        **{"2.npy": vector.getvalue(), "2.json": b'{"key": "k"}', "x/3.JPG": _image("JPEG")},
    }

    def corpus() -> Iterable[bytes]:
        for mode in ("w", "w:gz"):
            file = io.BytesIO()
            with tarfile.open(fileobj=file, mode=mode) as tar:
                for name, content in members.items():
                    entry = tarfile.TarInfo(name)
                    entry.size = len(content)
                    tar.addfile(entry, io.BytesIO(content))
            yield file.getvalue()

    return _file_target(folder, "a.tar", corpus)


ARRAYS = {
    "images": np.arange(12.0).reshape(3, 4),
    "texts": np.eye(3, dtype=np.float32),
    "labels": np.array([[1, 0], [0, 1], [1, 1]], np.uint8),
}


def npz_files(folder: Path) -> Target:
    """NumPy archives."""

    def corpus() -> Iterable[bytes]:
        for save in (np.savez, np.savez_compressed):
            file = io.BytesIO()
            save(file, **ARRAYS)
            yield file.getvalue()

    return _file_target(folder, "a.npz", corpus)


def mat_files(folder: Path) -> Target:
    """MATLAB files."""
    import h5py
    from scipy.io import savemat

    def corpus() -> Iterable[bytes]:
        sparse = {**ARRAYS, "texts": csc_array(ARRAYS["texts"])}
        for arrays, how in (
            *((ARRAYS, {"format": "4"}), (ARRAYS, {}), (ARRAYS, {"do_compression": True})),
            (sparse, {}),
        ):
            file = io.BytesIO()
            savemat(file, arrays, **how)
            yield file.getvalue()
        file = io.BytesIO()
        with h5py.File(file, "w", userblock_size=512) as archive:  # version 7.3
            for name, array in ARRAYS.items():
                archive[name] = array.T
        yield b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM" + file.getvalue()[128:]

    return _file_target(folder, "a.mat", corpus)


def _image(kind: str) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (9, 12, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, kind)
    return file.getvalue()


def images(folder: Path) -> Target:
    """Image files, as they are uploaded, and with the text that is embedded in them."""
    from corrhash.datasets.formats.folder import embedded_text

    path = folder / "a.png"

    def run(content: bytes) -> Any:
        path.write_bytes(content)
        embedded_text(path)
        return open_image(content).size

    kinds = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "ICO", "TGA")
    return Target(lambda: [_image(kind) for kind in kinds], run)


def model_folders(folder: Path) -> Target:
    """Files of a model folder, whose checksums are corrected, so that their content is read."""
    from corrhash._model_files import json_checksum

    pairs = make_pairs(40, seed=0)
    terms = Vocabulary(tuple(f"t{i}" for i in range(pairs.texts.shape[1])))
    hasher = METHODS["cvh"](4).fit(pairs)
    Model(hasher, Reader(terms), calibration=linear_calibration(4)).save(folder / "m")
    whole = {path.name: path.read_bytes() for path in (folder / "m").iterdir()}
    names = sorted(whole)

    def run(content: bytes) -> Any:
        name = names[content[0] % len(names)] if content else names[0]
        changed = content[1:]
        if name.endswith(".json"):
            try:
                parsed = json.loads(changed)
                if isinstance(parsed, dict):
                    parsed["sha256"] = json_checksum(parsed)
                    changed = json.dumps(parsed).encode()
            except (ValueError, TypeError, RecursionError):
                pass
        (folder / "m" / name).write_bytes(changed)
        try:
            model = load_model(folder / "m")
            model.hasher.encode_text(model.reader.read_texts(["t1 t2"]))
            model.hasher.encode_image(np.ones((1, pairs.images.shape[1])))
            for direction in model.calibration.directions if model.calibration else ():
                model.calibration.probabilities(direction, "distance", np.arange(5))
        finally:
            (folder / "m" / name).write_bytes(whole[name])
        return name

    return Target(lambda: [bytes([i]) + whole[name] for i, name in enumerate(names)], run)


def sqlite_files(folder: Path) -> Target:
    """The database file of a collection."""
    index = open_index(str(folder / "whole"), 16)
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((12, 16)))
    items = [
        Item(f"k{i}", f"text {i}", ["a"], {"year": i, "name": "n"}, thumbnail=b"jpeg")
        for i in range(12)
    ]
    index.add(np.arange(12), codes, items)
    index.close()
    truth = {number: repr(item) for number, item in enumerate(index.get(np.arange(12)))}
    index.close()
    (folder / "c").mkdir()

    def run(content: bytes) -> Any:
        for path in (folder / "c").iterdir():
            path.unlink()
        (folder / "c" / "collection.db").write_bytes(content)
        opened = open_index(str(folder / "c"), 16)
        try:
            found = opened.search(codes[:1], 12).rows[0].tolist()
            for where in ("year > 3", "'a' in labels", "key > 'k3'", "text > 'a'"):
                opened.select(where)
            opened.ids_of(["k1", "none"])
            for number, item in zip(found, opened.get(found), strict=True):
                if item is not None and repr(item) != truth[number]:
                    raise AssertionError(f"item {number} has changed: {item}")
        finally:
            opened.close()
        return len(found)

    return Target(lambda: [(folder / "whole" / "collection.db").read_bytes()], run)


TARGETS: dict[str, Callable[[Path], Target]] = {
    "filters": filters,
    "csv": csv_files,
    "jsonl": jsonl_files,
    "parquet": parquet_files,
    "tar": tar_files,
    "npz": npz_files,
    "mat": mat_files,
    "images": images,
    "models": model_folders,
    "sqlite": sqlite_files,
}
