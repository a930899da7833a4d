"""Checks: what is found, missing or damaged, in lines."""

import pytest

from corrhash.datasets.check import check_dataset
from tests.datasets.layouts import SMALL, draw, mirflickr


@pytest.fixture
def root(tmp_path):
    return mirflickr(tmp_path / "data")


def checked(*arguments, **options):
    check = check_dataset(*arguments, **options)
    return check, "\n".join(check.lines())


def test_missing_and_damaged_images_are_listed(root):
    (root / "mirflickr" / "im7.jpg").unlink()
    (root / "mirflickr" / "im9.jpg").write_text("")
    check, lines = checked("mirflickr25k", root=root, **SMALL)
    assert "58 images found, 1 missing, 1 damaged" in lines
    assert f"missing: {root / 'mirflickr' / 'im7.jpg'}" in lines
    assert f"damaged: {root / 'mirflickr' / 'im9.jpg'}: cannot identify" in lines
    assert "60 images (published: 25,000)" in lines
    assert "38 concepts (as published)" in lines
    assert "60 pairs; train 20, validation 5, query 6, database 54" in lines
    assert not check.complete
    assert len(check.images) == 24


def test_missing_files_are_listed(root):
    (root / "mirflickr25k_annotations_v080").rename(root / "elsewhere")
    check, lines = checked("mirflickr25k", root=root)
    assert f"tags, one file per image: {root / 'mirflickr' / 'meta' / 'tags'}" in lines
    assert "annotations, one file per concept: not found" in lines
    assert "Download the data from https://press.liacs.nl" in check.problem
    assert not check.complete
    assert check.images == []


def test_user_images_are_checked(tmp_path):
    for i in range(12):
        draw(tmp_path / "boats" / f"red boat {i}.jpg", i)
    check, lines = checked(str(tmp_path / "boats"))
    assert check.complete
    assert check.name == "boats"
    assert "0 empty texts, no labels" in lines
    assert check.captions[0] == "red boat"
