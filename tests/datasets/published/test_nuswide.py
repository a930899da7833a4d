"""NUS-WIDE, in miniature and in its published sizes."""

import time

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.datasets.fingerprint import split_fingerprint
from corrhash.datasets.published.nuswide import load
from tests.datasets.layouts import CONCEPTS81, PER_CLASS, nuswide


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return nuswide(tmp_path_factory.mktemp("nus"))


def test_labels_are_the_21_most_frequent_concepts(root):
    split = load(root, **PER_CLASS)
    assert sorted(split.pairs.label_names) == CONCEPTS81[:21]
    frequency = np.asarray(split.pairs.labels.sum(axis=0)).ravel()
    assert sorted(frequency, reverse=True) == frequency.tolist()
    assert split.pairs.keys[0].startswith("actor/0")
    assert len(split.pairs) == 360
    assert np.diff(split.pairs.labels.indptr).min() > 0


def test_tag_table_and_tag_lists_agree(root, tmp_path):
    by_table = load(root, **PER_CLASS)
    by_list = load(nuswide(tmp_path, table=False, with_images=False), **PER_CLASS)
    assert by_table.pairs.texts == by_list.pairs.texts
    assert max(map(len, by_table.pairs.texts)) > 10
    assert len(by_table.reader.vocabulary.terms) == 1000


def test_missing_images_do_not_change_the_split(root, caplog):
    raw, found = load(root, **PER_CLASS), load_dataset("nuswide", root=root, **PER_CLASS)
    lost = {key for key in raw.pairs.keys if int(key[6:10]) % 9 == 0}
    assert found.query.row_keys() == [k for k in raw.query.row_keys() if k not in lost]
    assert f"{len(lost)} of 360 images" in caplog.text
    assert f"{len(lost)} missing, 0 damaged" in caplog.text


def test_features_of_a_file_need_no_images(tmp_path):
    root = nuswide(tmp_path / "nus", with_images=False)
    for n in (400, 360):  # of all that are listed, or of those that count
        np.save(tmp_path / "f.npy", np.arange(n)[:, None])
        split = load_dataset(
            "nuswide", root=root, image_features=str(tmp_path / "f.npy"), **PER_CLASS
        )
        assert split.pairs.images.shape == (360, 1)
        numbers = [int(key[6:10]) for key in split.pairs.keys]
        wanted = numbers if n == 400 else np.arange(360)
        np.testing.assert_array_equal(split.pairs.images.ravel(), wanted)
    with pytest.raises(InputError, match="None of the 360 images"):
        load_dataset("nuswide", root=root, **PER_CLASS)


@pytest.mark.parametrize("name", ["0001_5001.jpg", "5001.jpg"])
def test_images_are_found_by_name_or_flickr_id(tmp_path, name):
    root = nuswide(tmp_path, with_images=False)
    (root / "images").mkdir()
    (root / "images" / name).write_text("")
    paths = load(root, **PER_CLASS).pairs.images.paths
    assert root / "images" / name in [path.resolve() for path in paths]


def test_damaged_files_are_named(tmp_path):
    root = nuswide(tmp_path, with_images=False)
    table = root / "NUS_WID_Tags" / "AllTags1k.txt"
    table.write_text(table.read_text()[:-500])
    with pytest.raises(InputError, match=r"AllTags1k.txt is damaged: expected 400 x 1,000"):
        load(root, **PER_CLASS)
    table.unlink()
    (root / "NUS_WID_Tags" / "All_Tags.txt").unlink()
    with pytest.raises(InputError, match="Neither AllTags1k.txt nor All_Tags.txt"):
        load(root, **PER_CLASS)
    labels = root / "Groundtruth" / "AllLabels" / "Labels_concept07.txt"
    labels.write_text("0\n2\n" * 200)
    with pytest.raises(InputError, match="Labels_concept07.txt is damaged"):
        load(root, **PER_CLASS)


N, N_KEPT = 269648, 195834


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Labels and tags of 269,648 images, of which 195,834 carry a frequent concept."""
    root = tmp_path_factory.mktemp("full")
    for folder in ("ImageList", "ConceptsList", "Groundtruth/AllLabels", "NUS_WID_Tags"):
        (root / folder).mkdir(parents=True)
    names = "".join(f"a\\{i:06}_{i}.jpg\n" for i in range(N))
    (root / "ImageList" / "Imagelist.txt").write_text(names)
    (root / "ConceptsList" / "Concepts81.txt").write_text("\n".join(CONCEPTS81))
    rows = np.arange(N_KEPT)
    first = rows % 21  # one concept each at least; no random stream decides, as in the draw
    for i, concept in enumerate(CONCEPTS81):
        carried = np.zeros(N, dtype=np.uint8)
        if i < 21:
            carried[:N_KEPT] = (first == i) | (rows * 7919 % 1009 < 10 * i)
        else:
            carried[i :: N // 500] = 1
        lines = np.full((N, 2), ord("\n"), dtype=np.uint8)
        lines[:, 0] = carried + ord("0")
        (root / "Groundtruth" / "AllLabels" / f"Labels_{concept}.txt").write_bytes(lines.tobytes())
    (root / "NUS_WID_Tags" / "TagList1k.txt").write_text("\n".join(f"tag{i}" for i in range(1000)))
    tags = "".join(f"{i}      tag{i % 1000} tag{i % 7} none \n" for i in range(N))
    (root / "NUS_WID_Tags" / "All_Tags.txt").write_text(tags)
    return root


def test_full_files_give_the_published_sizes(full, caplog):
    started = time.process_time()  # which other programs do not prolong
    split = load(full)
    assert time.process_time() - started < 30
    assert len(split.pairs) == N_KEPT
    parts = [split.query_rows, split.validation_rows, split.train_rows]
    assert [len(rows) for rows in parts] == [2100, 1050, 10500]
    assert len(np.unique(np.concatenate(parts))) == 13650
    assert len(split.database_rows) == N_KEPT - 2100
    assert split.counts == {"images": N, "concepts": 81, "tags": 1000, "pairs": N_KEPT}
    assert "the published dataset has" not in caplog.text
    # The draw rests on names and labels alone: the same on every machine.
    assert split_fingerprint(split) == "da4adc2a6356ee31"
