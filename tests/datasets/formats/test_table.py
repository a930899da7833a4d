"""Tables: the same items from CSV, Parquet and JSON Lines, for training and for indexing."""

import json
import re
import unicodedata

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.datasets.formats.base import Shard
from corrhash.datasets.formats.table import load, read
from corrhash.datasets.formats.table_parsers import BATCH
from corrhash.datasets.images import open_image
from corrhash.datasets.records import UnreadableRecord
from tests.datasets.formats.test_tar import png
from tests.datasets.layouts import draw

KINDS = ["csv", "tsv", "jsonl", "parquet"]
LINES = [
    {
        "image": f"images/{i}.png",
        "text": f'A "boat", number {i}; at sea',
        "labels": ["boat", "sea side"] if i % 2 else ["boat"],
        "split": ["train", "train", "validation", "query", "database"][i % 5],
    }
    for i in range(20)
]


def write(folder, kind, lines=LINES, name="manifest"):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.{kind}"
    if kind == "jsonl":
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(lines), path)
    else:
        separator = {"csv": ",", "tsv": "\t"}[kind]
        rows = [separator.join(lines[0])]
        for line in lines:
            cells = ["|".join(c) if isinstance(c, list) else str(c) for c in line.values()]
            cells = [cell.replace('"', '""') for cell in cells]
            rows.append(separator.join(f'"{cell}"' for cell in cells))
        # As spreadsheets write it: a byte order mark and Windows line ends.
        path.write_bytes(("\ufeff" + "\r\n".join(rows) + "\r\n").encode())
    return path


def records(path, **options):
    return list(read(path, **options).records)


def without(*names):
    return [{k: v for k, v in line.items() if k not in names} for line in LINES]


# Training


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_file_gives_the_same_pairs(tmp_path, kind):
    split = load(write(tmp_path / "boats", kind))
    assert split.name == "boats"
    assert split.pairs.texts == [line["text"] for line in LINES]
    assert split.pairs.keys == [line["image"] for line in LINES]
    assert split.pairs.label_names == ["boat", "sea side"]
    assert split.pairs.labels.toarray().tolist()[:2] == [[1, 0], [1, 1]]
    assert split.pairs.images.paths[0] == tmp_path / "boats" / "images" / "0.png"
    assert split.query_rows.tolist() == [3, 8, 13, 18]
    assert split.validation_rows.tolist() == [2, 7, 12, 17]
    assert len(split.train_rows) == 8
    assert len(split.database_rows) == 16


def test_a_drawn_split_does_not_depend_on_the_folder(tmp_path):
    first = load(write(tmp_path / "a", "jsonl", without("split")))
    second = load(write(tmp_path / "b", "parquet", without("split")))
    assert first.query.row_keys() == second.query.row_keys()
    assert len(first.query_rows) == 2
    sizes = {"n_query": 3, "n_validation": 4, "n_train": 5}
    third = load(tmp_path / "a" / "manifest.jsonl", 1, **sizes)
    assert [len(rows) for rows in (third.query_rows, third.train_rows)] == [3, 5]


def test_labels_are_optional(tmp_path):
    split = load(write(tmp_path, "jsonl", without("labels", "split")))
    assert split.pairs.labels is None


def test_columns_and_the_image_folder_can_be_named(tmp_path):
    lines = [{"file": f"{i}.png", "caption": "a boat", "part": "val"} for i in range(9)]
    lines += [{"file": "q.png", "caption": ["a", "tree"], "part": "test"}]
    lines += [{"file": "t.png", "caption": None, "part": "restval"}]
    names = {"image": "file", "text": "caption", "split": "part", "image_folder": "../photos"}
    path = write(tmp_path, "jsonl", lines)
    split = load(path, **names)
    assert split.pairs.images.paths[0].resolve() == tmp_path.parent / "photos" / "0.png"
    assert split.query.texts == ["a tree"]
    assert split.train.texts == [""]
    assert len(split.validation_rows) == 9
    first = records(path, **names)[0]
    assert (first.key, first.text, first.metadata) == ("0.png", "a boat", {"split": "val"})


def test_accents_and_backslashes_give_the_same_keys(tmp_path):
    ways = ["été\\{}.jpg", unicodedata.normalize("NFD", "été/{}.jpg")]
    tables = [
        write(tmp_path, "jsonl", [{"image": w.format(i), "text": "a"} for i in range(10)], str(n))
        for n, w in enumerate(ways)
    ]
    keys = [[*load(path).query.row_keys(), records(path)[0].key] for path in tables]
    assert keys[0] == keys[1]


def test_training_ignores_fields_that_metadata_cannot_hold(tmp_path):
    lines = [{**line, "box": {"x": 1}} for line in LINES]
    assert len(load(write(tmp_path, "jsonl", lines)).pairs) == 20


def test_images_and_features_inside_a_table_are_trained_on(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path / "cache"))
    rows = [{"image": png(i), "key": f"k{i}", "text": "a boat"} for i in range(10)]
    split = load_dataset(write(tmp_path / "a", "parquet", rows))
    assert split.pairs.keys[:2] == ["k0", "k1"]
    assert split.pairs.images[3].getpixel((0, 0)) == (3, 3, 3)
    rows = [{"features": [i, 1.5], "key": f"k{i}", "text": "a boat"} for i in range(10)]
    vectors = load(write(tmp_path / "b", "parquet", rows)).pairs.images
    np.testing.assert_array_equal(vectors[3], np.array([3, 1.5], np.float32))


LINE = {"image": "a.jpg", "text": "b"}


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            [{"imag": "a.jpg", "text": "b"}],
            "no column 'image'. Its columns are imag, text. Did you mean 'imag'",
        ),
        ([{**LINE, "image": "http://a/b.jpg"}], "line 1 .* 'http://a/b.jpg'. Download"),
        ([{**LINE, "image": ""}], "'manifest/0' .* has no image"),
        ([{**LINE, "split": "quary"}], "the unknown split 'quary'. Use one of: train"),
        ([{**LINE, "split": "train"}] * 3, "No item .* has the split 'query'"),
        ([{**LINE, "split": "train"}, {**LINE, "split": "test"}], "two splits, train and test"),
        ([], "contains no items"),
        ([["a.jpg", "b"]], "Cannot read line 1 of .*Expected a JSON object"),
    ],
)
def test_training_names_the_line_that_is_wrong(tmp_path, lines, message):
    with pytest.raises(InputError, match=message):
        load(write(tmp_path, "jsonl", lines))


def test_files_that_cannot_be_parsed_are_named(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"image": "a.jpg", "text": "b"}\n{"image"')
    with pytest.raises(InputError, match="line 2 of a.jsonl .*Invalid JSON"):
        load(tmp_path / "a.jsonl")
    (tmp_path / "a.parquet").write_text("PAR?")
    with pytest.raises(InputError, match=r"Cannot read .*a.parquet as Parquet"):
        load(tmp_path / "a.parquet")
    (tmp_path / "a.csv").write_text("image,text\na.jpg,a boat, a tree\n")
    with pytest.raises(
        InputError, match="line 2 of a.csv .*This row has more cells than the header"
    ):
        load(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"image,text\na.jpg,\xe9t\xe9\n")
    with pytest.raises(InputError, match="not UTF-8 text"):
        load(tmp_path / "b.csv")


def test_a_table_or_its_folder_is_loaded_with_features(tmp_path):
    path = write(tmp_path / "boats", "jsonl")
    for i in range(20):
        draw(tmp_path / "boats" / "images" / f"{i}.png", i)
    by_folder, by_file = (load_dataset(location) for location in (tmp_path / "boats", path))
    assert by_folder.fingerprint == by_file.fingerprint
    assert by_folder.query.images[0].size == (24, 20)
    np.save(tmp_path / "f.npy", np.arange(40.0).reshape(20, 2))
    ready = load_dataset(path, image_features=str(tmp_path / "f.npy"))
    np.testing.assert_array_equal(ready.query.images[0], [6, 7])
    assert ready.fingerprint.split == by_file.fingerprint.split


# One meaning for training and indexing


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_holds_every_item_with_its_metadata(tmp_path, kind):
    lines = [{**line, "year": 2000 + i, "place": "Oslo"} for i, line in enumerate(LINES)]
    stream = read(write(tmp_path, kind, lines))
    found = list(stream.records)
    assert [record.key for record in found] == [line["image"] for line in LINES]
    assert stream.total == 20
    assert found[3].metadata == {"split": "query", "year": 2003, "place": "Oslo"}
    assert found[3].labels == ["boat", "sea side"]
    assert found[3].path == str(tmp_path / "images/3.png")


@pytest.mark.parametrize("kind", KINDS)
def test_labels_in_one_string_are_several_labels(tmp_path, kind):
    lines = [{"image": f"{i}.png", "text": "a", "labels": "boat|sea"} for i in range(9)]
    path = write(tmp_path, kind, lines)
    assert load(path).pairs.label_names == ["boat", "sea"]
    assert records(path)[0].labels == ["boat", "sea"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", ["image", "key"])
def test_rows_with_the_same_key_are_merged(tmp_path, kind, key):
    rows = [("a.jpg", "x"), ("b.jpg", "y"), ("a.jpg", "z"), ("c.jpg", "x")]
    lines = [
        {"image": name, "key": name, "text": f"caption {n}", "labels": [label], "year": n}
        for n, (name, label) in enumerate(rows)
    ]
    if key == "image":
        lines = [{k: v for k, v in line.items() if k != "key"} for line in lines]
    path = write(tmp_path, kind, lines)
    pairs = load(path).pairs
    assert pairs.keys == ["a.jpg", "b.jpg", "c.jpg"]
    assert pairs.texts == ["caption 0 caption 2", "caption 1", "caption 3"]
    assert pairs.labels.toarray().tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 0]]
    stream = read(path)
    found = {record.key: record for record in stream.records}
    assert stream.total == len(found) == 3
    assert found["a.jpg"].text == "caption 0 caption 2"
    assert found["a.jpg"].labels == ["x", "z"]
    assert found["a.jpg"].metadata == {"year": 0}


@pytest.mark.parametrize("kind", KINDS)
def test_keys_can_be_numbers(tmp_path, kind):
    lines = [{"key": key, "text": f"caption {n}", "image": " "} for n, key in enumerate([0, 1, 0])]
    found = {record.key: record.text for record in records(write(tmp_path, kind, lines))}
    assert found == {"0": "caption 0 caption 2", "1": "caption 1"}


def test_merged_items_have_the_features_of_their_number(tmp_path):
    lines = [{"image": name} for name in ("a", "b", "a", "c")]
    np.save(tmp_path / "f.npy", np.arange(3.0)[:, None])
    path = write(tmp_path, "jsonl", lines)
    found = {r.key: r.image.tolist() for r in records(path, features=tmp_path / "f.npy")}
    assert found == {"a": [0.0], "b": [1.0], "c": [2.0]}


def test_cells_of_a_csv_file_are_numbers_if_all_are(tmp_path):
    content = "image,Photo Date,code,mark\na.png,2015,007,1.5\nb.png,,12,-2\n"
    (tmp_path / "a.csv").write_text(content)
    first, second = records(tmp_path / "a.csv")
    assert first.metadata == {"photo_date": 2015, "code": "007", "mark": 1.5}
    assert second.metadata == {"code": "12", "mark": -2}


# Indexing


def test_rows_without_an_image_are_numbered(tmp_path):
    rows = [
        {"image": "images/1.png", "text": "a boat", "labels": ["boat"], "year": 2015},
        {"image": None, "text": "the sea", "labels": [], "year": None},
    ]
    first, second = records(write(tmp_path, "parquet", rows, "items"))
    assert (first.key, first.path) == ("images/1.png", str(tmp_path / "images/1.png"))
    assert (first.text, first.labels, first.metadata) == ("a boat", ["boat"], {"year": 2015})
    assert (second.key, second.image, second.metadata) == ("items/1", None, {})


@pytest.mark.parametrize("cell", [png(5), {"bytes": png(5), "path": "a.png"}])
def test_parquet_can_hold_the_bytes_of_images(tmp_path, cell):
    (record,) = records(write(tmp_path, "parquet", [{"image": cell, "key": "mine"}]))
    assert record.key == "mine"
    assert open_image(record.image).getpixel((0, 0)) == (5, 5, 5)


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_feature_vectors_are_a_column(tmp_path, kind):
    rows = [{"image": "a.png", "features": [0.0, 1.5, 2.0], "path": "/old/a.png", "year": 2015}]
    (record,) = records(write(tmp_path, kind, rows))
    assert dict(record.metadata) == {"year": 2015}  # other fields become metadata
    np.testing.assert_array_equal(record.image, np.array([0, 1.5, 2], np.float32))
    assert (record.key, record.path) == ("a.png", str(tmp_path / "a.png"))


def test_shards_select_rows_of_a_file_and_files_of_a_folder(tmp_path):
    n = BATCH + 3
    path = write(tmp_path, "parquet", [{"text": f"words {i}"} for i in range(n)], "a")
    parts = [read(path, Shard(i, 2)) for i in range(2)]
    keys = [[record.key for record in part.records] for part in parts]
    assert sorted(keys[0] + keys[1]) == sorted(f"a/{i}" for i in range(n))
    assert [part.total for part in parts] == [len(own) for own in keys]
    write(tmp_path, "parquet", [{"text": "words"}], "b")
    second = read(tmp_path, Shard(1, 2))
    assert ([record.key for record in second.records], second.total) == (["b/0"], 1)


BAD_LINES = {
    "Invalid JSON": "{'image': 1}",
    "Expected a JSON object": "[1]",
    "image must be the path of a file, got 5": '{"image": 5}',
    "needs an image or a text": '{"key": "a"}',
    "number up to 2\\^53": '{"key": "a", "text": "b", "year": 1%s}' % ("0" * 400),
    "size": '{"key": "a", "text": "b", "size": [1, 2]}',
}


@pytest.mark.parametrize("reason", BAD_LINES)
def test_a_bad_line_is_reported_and_the_others_are_read(tmp_path, reason):
    good = '{"key": "%s", "text": "the sea"}'
    lines = [good % "first", "", BAD_LINES[reason], good % "last"]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    np.save(tmp_path / "rows.npy", np.arange(3.0)[:, None])
    path, rows = tmp_path / "items.jsonl", tmp_path / "rows.npy"
    first, bad, last = records(path)
    assert (first.key, bad.key, last.key) == ("first", "line 3 of items.jsonl", "last")
    assert re.search(reason, bad.reason)
    assert records(path, features=rows)[2].image == [2.0]


def test_a_bad_row_of_parquet_is_reported(tmp_path):
    rows = [{"text": "words", "more": None}, {"text": "words", "more": {"a": 1}}]
    good, bad = records(write(tmp_path, "parquet", rows, "a"))
    assert good.key == "a/0"
    assert isinstance(bad, UnreadableRecord)
    assert bad.key == "row 2 of a.parquet"
    assert "more" in bad.reason


def test_an_export_is_read_without_its_ids_and_codes(tmp_path):
    exported = {
        **{"id": 7, "image_code": "0a", "text_code": "1b", "key": "a", "text": "a boat"},
        **{"labels": ["boat"], "metadata": {"year": 2015, "id": 3}, "path": "/data/b.png"},
    }
    by_hand = {"id": 7, "image": "b.png", "metadata": {"year": 2015}, "path": "elsewhere.png"}
    again, other = records(write(tmp_path, "jsonl", [exported, by_hand]))
    assert (again.key, again.text, again.labels) == ("a", "a boat", ["boat"])
    assert (again.path, again.metadata) == ("/data/b.png", {"year": 2015, "id": 3})
    assert (other.path, other.metadata) == (str(tmp_path / "b.png"), {"year": 2015, "id": 7})


def test_a_file_of_features_has_a_row_for_each_item(tmp_path):
    path = write(tmp_path, "jsonl", [{"image": "b.png"}])
    np.save(tmp_path / "rows.npy", np.arange(4.0)[None])
    (record,) = records(path, features=tmp_path / "rows.npy")
    np.testing.assert_array_equal(record.image, np.arange(4.0))
    assert record.path == str(tmp_path / "b.png")
    np.save(tmp_path / "rows.npy", np.zeros((2, 4)))
    with pytest.raises(InputError, match="2 rows"):
        read(path, features=tmp_path / "rows.npy")


@pytest.mark.parametrize(("name", "value"), [("image", 3), ("labels", [1])])
def test_column_names_must_be_strings(name, value, tmp_path):
    with pytest.raises(InputError, match=f"^{name} must be a string, got "):
        load(write(tmp_path, "csv"), **{name: value})


def test_damaged_heading_of_a_csv_file_is_an_error(tmp_path):
    (tmp_path / "a.csv").write_text('image,"text"x\na.png,b\n')
    with pytest.raises(InputError, match=r"Cannot read line 1 of .*a\.csv: .*"):
        list(read(tmp_path / "a.csv").records)
