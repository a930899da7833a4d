"""Checks: what is found, missing or damaged, in words."""

import pytest

from corrhash.datasets.check import check_dataset
from tests.datasets.layouts import SMALL, draw, mirflickr


@pytest.fixture
def root(tmp_path):
    return mirflickr(tmp_path / "data")


def said(*arguments, **options):
    check = check_dataset(*arguments, **options)
    return check, "\n".join(check.lines())


def test_missing_and_damaged_pictures_are_listed(root):
    (root / "mirflickr" / "im7.jpg").unlink()
    (root / "mirflickr" / "im9.jpg").write_text("")
    check, words = said("mirflickr25k", root=root, **SMALL)
    assert "58 pictures found, 1 missing, 1 damaged" in words
    assert f"missing: {root / 'mirflickr' / 'im7.jpg'}" in words
    assert f"damaged: {root / 'mirflickr' / 'im9.jpg'}: cannot identify" in words
    assert "60 pictures (published: 25,000)" in words
    assert "38 concepts (as published)" in words
    assert "60 pairs; train 20, validation 5, query 6, database 54" in words
    assert not check.complete
    assert len(check.pictures) == 24


def test_files_that_are_not_there_are_listed_beside_those_that_are(root):
    (root / "mirflickr25k_annotations_v080").rename(root / "elsewhere")
    check, words = said("mirflickr25k", root=root)
    assert f"tags, one file a picture: {root / 'mirflickr' / 'meta' / 'tags'}" in words
    assert "annotations, one file a concept: not found" in words
    assert "Get the data at https://press.liacs.nl" in words
    assert not check.complete
    assert check.pictures == []


def test_ones_own_pictures_are_checked_too(tmp_path):
    for i in range(12):
        draw(tmp_path / "boats" / f"red boat {i}.jpg", i)
    check, words = said(str(tmp_path / "boats"))
    assert check.complete
    assert check.name == "boats"
    assert "0 empty texts, no labels" in words
    assert check.captions[0] == "red boat"
