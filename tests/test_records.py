"""Records: what may be added, and how it is known again."""

import io
import os

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from corrhash import InputError
from corrhash.datasets import ImageFiles, PairedDataset
from corrhash.records import Record, as_record, open_picture, pair_records, thumbnail


def test_a_record_comes_from_a_dictionary(tmp_path):
    record = as_record({"image": tmp_path / "a.jpg", "text": "a dog", "metadata": {"year": 2015}})
    assert record.key == record.path == str(tmp_path / "a.jpg")
    assert record.item().fields()["year"] == 2015
    assert as_record(record) is record


MISTAKES = {
    "needs a picture or a text. Got neither for 'a'": {"key": "a"},
    "needs a key, by which it is known": {"text": "a dog"},
    "dictionary with some of: key, image.*Got \\['year'\\]": {"key": "a", "text": "b", "year": 3},
    "Got nan for 'x'": {"key": "a", "text": "b", "metadata": {"x": float("nan")}},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_told(message):
    with pytest.raises(InputError, match=message):
        as_record(MISTAKES[message])


def test_a_stamp_changes_with_the_record_and_only_then(tmp_path):
    path = tmp_path / "a.png"
    Image.new("RGB", (9, 9), "red").save(path)
    pixels = np.zeros((9, 9, 3), np.uint8)
    base = {"key": "a", "image": path, "text": "a dog", "labels": ["dog"], "metadata": {"year": 1}}
    changes = [
        *({"text": "dog"}, {"labels": []}, {"metadata": {"year": 2}}, {"metadata": {"day": 1}}),
        *({"image": pixels}, {"image": pixels + 1}, {"image": np.zeros(9)}, {"image": None}),
        *({"words": np.ones(3)}, {"words": sp.csr_array(np.eye(3)[:1])}),
    ]
    stamps = [Record(**(base | change)).stamp() for change in [{}, *changes]]
    assert len(set(stamps)) == len(stamps)
    assert Record(**base).stamp() == stamps[0]
    os.utime(path, ns=(0, 0))
    assert Record(**base).stamp() not in stamps


def test_pictures_are_turned_upright_and_become_small(tmp_path):
    picture = Image.new("RGB", (800, 400), "red")
    picture.paste("blue", (0, 0, 400, 400))
    exif = picture.getexif()
    exif[0x0112] = 6  # to be turned by a quarter
    picture.save(tmp_path / "turned.jpg", exif=exif)
    opened = open_picture(tmp_path / "turned.jpg")
    assert opened.size == (400, 800)
    with Image.open(io.BytesIO(thumbnail(opened))) as small:
        assert small.size == (128, 256)
        assert small.getpixel((64, 20))[2] > 200  # the blue half is on top
    assert open_picture(np.zeros((5, 7, 3), np.uint8)).size == (7, 5)
    assert open_picture(Image.new("L", (3, 3))).mode == "RGB"


def clear(path):
    pixels = np.random.default_rng(0).integers(0, 256, (6, 8, 4), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "PNG")


def deep_grey(path):
    Image.fromarray(np.array([[0, 257 * 100, 65535]], dtype=np.uint16)).save(path, "PNG")


def bad_exif(path):
    Image.new("RGB", (6, 4), "red").save(path, "PNG", exif=b"Exif\x00\x00no note of a camera")


def large_photo(path):
    pixels = np.random.default_rng(0).integers(0, 256, (2100, 2200, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, "JPEG")


@pytest.mark.parametrize("write", [clear, deep_grey, bad_exif, large_photo])
def test_pictures_have_the_pixels_that_training_sees(tmp_path, write):
    path = tmp_path / "picture"
    write(path)
    trained = np.asarray(ImageFiles([path])[0])
    for source in (path, str(path), path.read_bytes()):
        np.testing.assert_array_equal(np.asarray(open_picture(source)), trained)


@pytest.mark.parametrize("write", [clear, deep_grey])
def test_opened_pictures_become_rgb_as_in_training(tmp_path, write):
    path = tmp_path / "picture"
    write(path)
    with Image.open(path) as opened:
        seen = np.asarray(open_picture(opened))
    np.testing.assert_array_equal(seen, np.asarray(ImageFiles([path])[0]))


def test_pictures_that_are_none_are_told(tmp_path):
    (tmp_path / "cut.jpg").write_bytes(b"\xff\xd8\xff\xe0")
    with pytest.raises(InputError, match=r"Cannot read the picture .*cut.jpg"):
        open_picture(tmp_path / "cut.jpg")
    with pytest.raises(InputError, match="There is no picture"):
        open_picture(str(tmp_path / "none.jpg"))
    with pytest.raises(InputError, match="Got shape \\(3,\\) of float64"):
        open_picture(np.zeros(3))


def test_a_picture_may_be_the_bytes_of_a_file():
    file = io.BytesIO()
    Image.new("RGB", (9, 9), "red").save(file, "PNG")
    first, second = (Record("a", content) for content in (file.getvalue(), file.getvalue()[:-9]))
    assert open_picture(first.image).getpixel((0, 0)) == (255, 0, 0)
    assert first.stamp() != second.stamp()
    with pytest.raises(InputError, match="Its 7 bytes are no picture, or a damaged one"):
        open_picture(b"nothing")


def test_the_items_of_a_dataset_become_records():
    labels = np.array([[1, 0], [1, 1]])
    raw = PairedDataset(
        ImageFiles(["a.jpg", "b.jpg"]),
        *(["a boat", "sea"], labels),
        keys=["a", "b"],
        items=[{}, {"caption": "two boats", "path": "b.jpg"}],
        label_names=("boat", "sea"),
    )
    read = PairedDataset(np.eye(2, 5), sp.csr_array(np.eye(2, 3)), labels, keys=["a", "b"])
    plain = list(pair_records(raw))
    assert [(r.key, str(r.image), r.text, r.labels) for r in plain] == [
        *(("a", "a.jpg", "a boat", ["boat"]), ("b", "b.jpg", "sea", ["boat", "sea"]))
    ]
    assert [record.metadata for record in plain] == [{}, {"caption": "two boats"}]
    both = list(pair_records(read, raw))
    assert [(r.path, r.text, r.labels) for r in both] == [
        *(("a.jpg", "a boat", ["boat"]), ("b.jpg", "sea", ["boat", "sea"]))
    ]
    np.testing.assert_array_equal(both[1].image, np.eye(2, 5)[1])
    np.testing.assert_array_equal(both[1].words.toarray(), [[0, 1, 0]])
    assert [r.picture for r in pair_records(read)] == [None, None]
