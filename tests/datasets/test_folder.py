"""Folders of pictures, with words beside them, in them or in their names."""

import pytest
from PIL import Image

from corrhash import InputError
from corrhash.datasets import load_folder
from corrhash.datasets.folder import load
from tests.datasets.layouts import draw


@pytest.fixture
def holiday(tmp_path):
    """Pictures in two folders: one with a caption, one with keywords, others with names."""
    folder = tmp_path / "holiday"
    for i in range(10):
        draw(folder / "beach" / f"IMG_{i:04} red boat.jpg", i)
    draw(folder / "town" / "one.PNG", 20)
    (folder / "town" / "one.txt").write_bytes(b"Une rue\xc3\xa9\r\nla nuit\r\n")
    exif = Image.Exif()
    exif[0x9C9E] = "church;old town\0".encode("utf-16-le")
    draw(folder / "town" / "two.jpg", 21, exif=exif)
    draw(folder / "town" / ".hidden.jpg", 22)
    (folder / "notes.md").write_text("no picture")
    return folder


def test_each_picture_has_the_first_words_that_it_can_get(holiday):
    split = load(holiday)
    texts = dict(zip(split.pairs.keys, split.pairs.texts, strict=True))
    assert len(texts) == 12
    assert texts["beach/IMG_0003 red boat.jpg"] == "red boat"
    assert texts["town/one.PNG"] == "Une rueé la nuit"
    assert texts["town/two.jpg"] == "church old town"
    assert split.name == "holiday"
    assert split.pairs.labels is None


def test_one_kind_of_words_can_be_asked_for(holiday):
    def texts(captions):
        return load(holiday, captions=captions).pairs.texts[-2:]

    assert texts("beside") == ["Une rueé la nuit", ""]
    assert texts("inside") == ["", "church old town"]
    assert texts("names") == ["one", "two"]


def test_folders_or_keywords_can_be_labels(holiday):
    pairs = load(holiday, labels="folders").pairs
    assert pairs.label_names == ["beach", "town"]
    assert pairs.labels.sum(axis=0).tolist() == [10, 2]
    sizes = {"n_query": 1, "n_validation": 1, "n_train": 1}
    for i in range(2):
        exif = Image.Exif()
        exif[0x9C9E] = "sea\0".encode("utf-16-le")
        draw(holiday / f"more{i}.jpg", i, exif=exif)
    assert load(holiday, labels="keywords", **sizes).pairs.label_names == [
        *("church", "old town", "sea")
    ]


def test_what_cannot_be_read_is_left_out_of_a_loaded_folder(holiday):
    (holiday / "town" / "broken boat.jpg").write_text("no picture")
    split = load_folder(holiday)
    assert len(split.pairs) == 12
    assert {"red", "boat"} <= set(split.reader.vocabulary.words)


def test_mistakes_are_told(tmp_path, holiday):
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"no picture in .*empty \(.jpg"):
        load(tmp_path / "empty")
    with pytest.raises(InputError, match="no choice 'tags' here. Use one of: auto, beside"):
        load(holiday, captions="tags")
    (holiday / "town" / "one.txt").unlink()
    with pytest.raises(InputError, match=r"None of the 12 pictures .* has words"):
        load(holiday, captions="beside")
