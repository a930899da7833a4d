"""PublishedFiles: find files and compare counts."""

import logging

import pytest

from corrhash import InputError
from corrhash.datasets.published.base import File, PublishedFiles, loads, published_files

FILES = PublishedFiles(
    urls=("https://example.org",),
    unpack="a.zip gives a/.",
    size="1 GB",
    licence="any",
    files={
        "tags": File("tags", ("a/tags", "tags")),
        "list": File("list", ("list.txt",)),
        "more": File("more", ("more.txt",), optional=True),
    },
    counts={"images": 10},
)


def test_the_first_existing_path_is_used(tmp_path):
    (tmp_path / "tags").mkdir()
    (tmp_path / "list.txt").write_text("")
    assert FILES.require(tmp_path)["tags"] == tmp_path / "tags"
    (tmp_path / "a" / "tags").mkdir(parents=True)
    found = FILES.require(tmp_path)
    assert found["tags"] == tmp_path / "a" / "tags"
    assert found["more"] is None


def test_missing_files_are_listed_with_the_url(tmp_path):
    message = (
        r"tags \(a/tags\); list \(list.txt\). Download the data from https://example.org .*a.zip"
    )
    with pytest.raises(InputError, match=message):
        FILES.require(tmp_path)


def test_counts_are_logged_and_compared(caplog):
    with caplog.at_level(logging.INFO, "corrhash"):
        FILES.compare("it", {"images": 10, "tags": 3})
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "it: 10 images, 3 tags." in caplog.text
    FILES.compare("it", {"images": 9})
    assert "it has 9 images, but the published dataset has 10" in caplog.text


def test_a_loader_keeps_its_files():
    assert published_files(loads(FILES)(lambda: None)) is FILES
    assert published_files(print) is None
