"""Manifests: the same pairs from CSV, Parquet and JSON Lines."""

import json
import unicodedata

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.datasets.manifest import load
from tests.datasets.layouts import draw

LINES = [
    {
        "image": f"pictures/{i}.png",
        "text": f'A "boat", number {i}; at sea',
        "labels": ["boat", "sea side"] if i % 2 else ["boat"],
        "split": ["train", "train", "validation", "query", "database"][i % 5],
    }
    for i in range(20)
]


def write(folder, kind, lines=LINES):
    folder.mkdir(exist_ok=True)
    path = folder / f"manifest.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(lines), path)
    else:
        between = {"csv": ",", "tsv": "\t"}[kind]
        rows = [between.join(lines[0])]
        for line in lines:
            cells = [line["image"], line["text"].replace('"', '""'), "|".join(line["labels"])]
            rows.append(between.join(f'"{cell}"' for cell in (*cells, line["split"])))
        # As spreadsheets write it: a mark at the start, line ends of Windows.
        path.write_bytes(("\ufeff" + "\r\n".join(rows) + "\r\n").encode())
    return path


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_every_kind_of_file_gives_the_same_pairs(tmp_path, kind):
    split = load(write(tmp_path / "boats", kind))
    assert split.name == "boats"
    assert split.pairs.texts == [line["text"] for line in LINES]
    assert split.pairs.keys == [line["image"] for line in LINES]
    assert split.pairs.label_names == ["boat", "sea side"]
    assert split.pairs.labels.toarray().tolist()[:2] == [[1, 0], [1, 1]]
    assert split.pairs.images.paths[0] == tmp_path / "boats" / "pictures" / "0.png"
    assert split.query_rows.tolist() == [3, 8, 13, 18]
    assert split.validation_rows.tolist() == [2, 7, 12, 17]
    assert len(split.train_rows) == 8
    assert len(split.database_rows) == 16


def without(*names):
    return [{k: v for k, v in line.items() if k not in names} for line in LINES]


def test_a_split_is_drawn_where_none_is_given_wherever_the_file_lies(tmp_path):
    first = load(write(tmp_path / "a", "jsonl", without("split")))
    second = load(write(tmp_path / "b", "parquet", without("split")))
    assert first.query.row_keys() == second.query.row_keys()
    assert len(first.query_rows) == 2
    sizes = {"n_query": 3, "n_validation": 4, "n_train": 5}
    asked = load(tmp_path / "a" / "manifest.jsonl", 1, **sizes)
    assert [len(rows) for rows in (asked.query_rows, asked.train_rows)] == [3, 5]


def test_labels_may_be_missing(tmp_path):
    split = load(write(tmp_path, "jsonl", without("labels", "split")))
    assert split.pairs.labels is None


def test_columns_and_pictures_are_where_one_says(tmp_path):
    lines = [{"file": f"{i}.png", "caption": "a boat", "part": "val"} for i in range(9)]
    lines += [{"file": "q.png", "caption": ["a", "tree"], "part": "test"}]
    lines += [{"file": "t.png", "caption": None, "part": "restval"}]
    names = {"image": "file", "text": "caption", "split": "part"}
    split = load(write(tmp_path, "jsonl", lines), pictures="../photos", **names)
    assert split.pairs.images.paths[0].resolve() == tmp_path.parent / "photos" / "0.png"
    assert split.query.texts == ["a tree"]
    assert split.train.texts == [""]
    assert len(split.validation_rows) == 9


def test_lines_of_the_same_picture_are_one_item(tmp_path):
    lines = [
        {"image": name, "text": f"caption {n}", "labels": [label]}
        for n, (name, label) in enumerate([("a.jpg", "x"), ("b.jpg", "y"), ("a.jpg", "z")])
    ]
    lines += [{"image": "c.jpg", "text": "", "labels": ["x"]}]
    pairs = load(write(tmp_path, "jsonl", lines)).pairs
    assert pairs.keys == ["a.jpg", "b.jpg", "c.jpg"]
    assert pairs.texts == ["caption 0 caption 2", "caption 1", ""]
    assert pairs.labels.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 0]]


def test_accents_and_backslashes_of_other_systems_give_the_same_keys(tmp_path):
    ways = ["été\\{}.jpg", unicodedata.normalize("NFD", "été/{}.jpg")]
    keys = [
        load(
            write(tmp_path, "jsonl", [{"image": way.format(i), "text": "a"} for i in range(10)])
        ).query.row_keys()
        for way in ways
    ]
    assert keys[0] == keys[1]


LINE = {"image": "a.jpg", "text": "b"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([{"imag": "a.jpg", "text": "b"}], "has no 'image', but: imag, text. Did you mean 'imag'"),
        ([{**LINE, "image": "http://a/b.jpg"}], "Line 1 .* 'http://a/b.jpg'.*download"),
        ([{**LINE, "image": ""}], "has '' for a picture"),
        ([{**LINE, "split": "quary"}], "the split 'quary'. Use one of: train"),
        ([{**LINE, "split": "train"}] * 3, "No line .* has the split 'query'"),
        ([{**LINE, "split": "train"}, {**LINE, "split": "test"}], "two parts, train and query"),
        ([], "lists nothing"),
        ([["a.jpg", "b"]], "Line 1 .* is not an object"),
    ],
)
def test_mistakes_are_named_with_their_lines(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, "jsonl", lines))


def test_files_that_are_none_are_told(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"image": "a.jpg", "text": "b"}\n{"image"')
    with pytest.raises(InputError, match="Line 2 of .* is not JSON"):
        load(tmp_path / "a.jsonl")
    (tmp_path / "a.parquet").write_text("PAR?")
    with pytest.raises(InputError, match="cannot be read as Parquet"):
        load(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("image,text\na.jpg,a boat, a tree\n")
    with pytest.raises(InputError, match="Item 1 .* more cells than the heading"):
        load(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"image,text\na.jpg,\xe9t\xe9\n")
    with pytest.raises(InputError, match="not text in UTF-8"):
        load(tmp_path / "b.csv")


def test_it_is_loaded_from_pictures_or_from_features_by_the_place_alone(tmp_path):
    path = write(tmp_path / "boats", "jsonl")
    for i in range(20):
        draw(tmp_path / "boats" / "pictures" / f"{i}.png", i)
    by_folder, by_file = (load_dataset(place) for place in (tmp_path / "boats", path))
    assert by_folder.fingerprint == by_file.fingerprint
    assert by_folder.query.images[0].size == (24, 20)
    np.save(tmp_path / "f.npy", np.arange(40.0).reshape(20, 2))
    ready = load_dataset(path, image_features=str(tmp_path / "f.npy"))
    np.testing.assert_array_equal(ready.query.images[0], [6, 7])
    assert ready.fingerprint.split == by_file.fingerprint.split
