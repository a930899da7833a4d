"""Records: their fields, stamps and labels."""

import hashlib
import os

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset
from corrhash.datasets.records import Record, as_record, dataset_records


def test_a_record_is_built_from_a_dictionary(tmp_path):
    record = as_record({"image": tmp_path / "a.jpg", "text": "a dog", "metadata": {"year": 2015}})
    assert record.key == record.path == str(tmp_path / "a.jpg")
    assert record.item().fields()["year"] == 2015
    assert as_record(record) is record


MISTAKES = {
    "needs an image or a text, got neither for 'a'": {"key": "a"},
    "needs a key. Only images read from files": {"text": "a dog"},
    "dictionary with fields from key, image.*got \\['year'\\]": {
        "key": "a",
        "text": "b",
        "year": 3,
    },
    "got nan": {"key": "a", "text": "b", "metadata": {"x": float("nan")}},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_mistakes_are_explained(message):
    with pytest.raises(InputError, match=message):
        as_record(MISTAKES[message])


def test_a_stamp_changes_with_the_record_only(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (9, 9), "red").save(path)
    pixels = np.zeros((9, 9, 3), np.uint8)
    base = {"key": "a", "image": path, "text": "a dog", "labels": ["dog"], "metadata": {"year": 1}}
    changes = [
        *({"text": "dog"}, {"labels": []}, {"metadata": {"year": 2}}, {"metadata": {"day": 1}}),
        *({"image": pixels}, {"image": pixels + 1}, {"image": np.zeros(9)}, {"image": None}),
        *({"term_vector": np.ones(3)}, {"term_vector": sp.csr_array(np.eye(3)[:1])}),
    ]
    stamps = [Record(**(base | change)).stamp("a.png") for change in [{}, *changes]]
    stamps.append(Record(**base).stamp("b.png"))
    assert len(set(stamps)) == len(stamps)
    described, images = zip(*(stamp.split(":") for stamp in stamps), strict=True)
    assert [one != described[0] for one in described] == [
        False,
        *[True] * 4,
        *[False] * 4,
        True,
        True,
        False,
    ]
    assert [one != images[0] for one in images] == [
        False,
        *[False] * 4,
        *[True] * 4,
        False,
        False,
        True,
    ]
    assert Record(**base).stamp("a.png") == stamps[0]
    os.utime(path, ns=(0, 0))
    assert Record(**base).stamp("a.png") not in stamps


def test_content_is_the_checksum_of_the_file(tmp_path):
    for name in ("a.png", "b.png"):
        Image.new("RGB", (9, 9), "red").save(tmp_path / name)
    content = (tmp_path / "a.png").read_bytes()
    expected = hashlib.sha256(content).hexdigest()[:32]
    for image in (tmp_path / "a.png", str(tmp_path / "b.png"), content):
        assert Record("a", image).content() == expected
    for image in (tmp_path / "missing.png", np.zeros(9), np.zeros((9, 9, 3), np.uint8)):
        assert Record("a", image).content() == ""
    assert Record("a", text="a dog").content() == ""


def test_items_of_a_dataset_become_records():
    labels = np.array([[1, 0], [1, 1]])
    raw = PairedDataset(
        ImageFiles(["a.jpg", "b.jpg"]),
        *(["a boat", "sea"], labels),
        keys=["a", "b"],
        items=[{}, {"caption": "two boats", "path": "b.jpg"}],
        label_names=("boat", "sea"),
    )
    read = PairedDataset(np.eye(2, 5), sp.csr_array(np.eye(2, 3)), labels, keys=["a", "b"])
    plain = list(dataset_records(raw))
    assert [(r.key, str(r.image), r.text, r.labels) for r in plain] == [
        *(("a", "a.jpg", "a boat", ["boat"]), ("b", "b.jpg", "sea", ["boat", "sea"]))
    ]
    assert [record.metadata for record in plain] == [{}, {"caption": "two boats"}]
    both = list(dataset_records(read, raw))
    assert [(r.path, r.text, r.labels) for r in both] == [
        *(("a.jpg", "a boat", ["boat"]), ("b.jpg", "sea", ["boat", "sea"]))
    ]
    np.testing.assert_array_equal(both[1].image, np.eye(2, 5)[1])
    np.testing.assert_array_equal(both[1].term_vector.toarray(), [[0, 1, 0]])
    assert [r.preview for r in dataset_records(read)] == [None, None]


def test_labels_in_one_string_are_split():
    assert Record("a", text="b", labels="boat|sea").item().labels == ("boat", "sea")
    assert Record("a", text="b", labels=["boat|sea"]).item().labels == ("boat|sea",)


def test_merged_records_keep_all_texts_and_labels():
    first = Record("a", text="a boat", labels=["boat", "sea"], metadata={"year": 1})
    second = Record("a", "a.jpg", labels=["sea", "sky"], metadata={"year": 2, "place": "Oslo"})
    merged = first.merge(second).merge(Record("a", text="at sea"))
    assert (merged.path, merged.text) == ("a.jpg", "a boat at sea")
    assert (merged.labels, merged.metadata) == (
        ["boat", "sea", "sky"],
        {"year": 1, "place": "Oslo"},
    )
