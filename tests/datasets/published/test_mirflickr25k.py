"""MIRFLICKR-25K in its two variants, in miniature and in its published sizes."""

import logging
import unicodedata

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.datasets.published.mirflickr25k import CONCEPTS, STRICT, load, load_24
from tests.datasets.layouts import SMALL, mirflickr


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return mirflickr(tmp_path_factory.mktemp("mir"))


def test_the_chn_variant_has_all_images_and_38_concepts(root):
    split = load(root, **SMALL)
    assert len(split.pairs) == 60
    assert split.pairs.label_names == [*CONCEPTS, *STRICT]
    assert split.pairs.keys[:2] == ["im1", "im2"]
    assert split.pairs.images.paths[9] == root / "mirflickr" / "im10.jpg"
    # Image 25 has the number 1 of 24 concepts, and as the second in its list not the strict one.
    carried = split.pairs.labels[[24]].indices
    assert [split.pairs.label_names[column] for column in carried] == ["baby"]
    assert "rare25" in split.pairs.texts[24].split()
    assert split.pairs.labels[[10]].nnz == 0  # number 11 carries none


def test_the_24_variant_needs_a_frequent_tag_and_a_concept(root):
    split = load_24(root, **SMALL)
    wanted = [f"im{k}" for k in range(1, 61) if k % 7 and k % 11]
    assert split.pairs.keys == wanted
    assert split.pairs.labels.shape[1] == 24
    assert split.counts == {
        "images": 60,
        "concepts": 24,
        "frequent tags": 6,
        "pairs": len(wanted),
    }
    assert split.reader.vocabulary.terms == ("c++", "café", "explore", "nikon", "sea", "été")


def test_features_of_all_images_serve_both_variants(root, tmp_path):
    features = np.arange(60, dtype=np.float32)[:, None]
    np.save(tmp_path / "f.npy", features)
    split = load_dataset(
        "mirflickr25k-24", root=root, image_features=str(tmp_path / "f.npy"), **SMALL
    )
    numbers = [int(key.removeprefix("im")) for key in split.pairs.keys]
    np.testing.assert_array_equal(split.pairs.images.ravel(), np.array(numbers) - 1)


def test_frequent_tags_are_counted_without_a_list(tmp_path):
    root = mirflickr(tmp_path, n=200, with_images=False)
    (root / "mirflickr" / "doc" / "common_tags.txt").unlink()
    assert load_24(root, **SMALL).counts["frequent tags"] == 6


def test_annotations_and_images_can_share_a_folder(root, tmp_path):
    mirflickr(tmp_path, with_images=False)
    home = tmp_path / "mirflickr"
    for path in (tmp_path / "mirflickr25k_annotations_v080").iterdir():
        path.rename(home / path.name)
    flat = load(home, **SMALL)
    assert flat.pairs.texts == load(root, **SMALL).pairs.texts
    assert (flat.pairs.labels != load(root, **SMALL).pairs.labels).nnz == 0


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"tags, one file per image .*mirdownload.*--root"):
        load(tmp_path)
    mirflickr(tmp_path, with_images=False)
    annotations = tmp_path / "mirflickr25k_annotations_v080"
    (annotations / "sky.txt").write_text("1\nseven\n")
    with pytest.raises(InputError, match=r"sky.txt must list image numbers"):
        load(tmp_path, **SMALL)
    (annotations / "sky.txt").unlink()
    with pytest.raises(InputError, match=r"1 of 38 files not found .*such as sky.txt"):
        load(tmp_path, **SMALL)


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Labels and tags of 25,000 images: 20,015 carry a frequent tag and a concept."""
    root = tmp_path_factory.mktemp("full")
    tags, annotations = root / "mirflickr" / "meta" / "tags", root / "annotations"
    tags.mkdir(parents=True)
    annotations.mkdir()
    for k in range(1, 25001):
        tag = "rare" if k % 5 == 0 else f"tag{k % 1386}\n"
        (tags / f"tags{k}.txt").write_text(f"x{k}\n{tag}")
    (root / "mirflickr" / "doc").mkdir()
    lines = "".join(f"tag{i} 20\n" for i in range(1386))
    (root / "mirflickr" / "doc" / "common_tags.txt").write_text(lines)
    # 20,000 carry a frequent tag; another 15 of the rest are given one.
    for k in range(5, 80, 5):
        (tags / f"tags{k}.txt").write_text("tag0")
    for concept in (*CONCEPTS, *STRICT):
        column = CONCEPTS.index(concept.removesuffix("_r1"))
        lines = "".join(f"{k}\n" for k in range(1, 25001) if k % 24 == column)
        (annotations / f"{concept}.txt").write_text(lines)
    return root


def test_full_files_give_the_published_sizes(full, caplog):
    with caplog.at_level(logging.WARNING):
        paper, other = load(full), load_24(full)
    parts = ("query", "validation", "train", "database")
    sizes = [[len(getattr(split, f"{p}_rows")) for p in parts] for split in (paper, other)]
    assert sizes == [[1000, 1000, 4000, 24000], [2000, 1000, 10000, 18015]]
    assert paper.pairs.labels.shape == (25000, 38)
    assert other.pairs.labels.shape == (20015, 24)
    assert len(other.reader.vocabulary.terms) == 1386
    assert "the published dataset has" not in caplog.text


def test_a_wrong_count_is_logged(root, caplog):
    load_24(root, **SMALL)
    assert "60 images, but the published dataset has 25,000: results" in caplog.text


def test_tags_are_compared_as_written(tmp_path):
    root = mirflickr(tmp_path)
    before = load_24(root, **SMALL).pairs.keys
    # Number 7 has a rare tag only. The frequent tag "été" in decomposed letters is another tag.
    assert "im7" not in before
    decomposed = unicodedata.normalize("NFD", "été")
    (root / "mirflickr" / "meta" / "tags" / "tags7.txt").write_text(f"{decomposed}\n")
    assert load_24(root, **SMALL).pairs.keys == before
