"""Sources: what is found where, and what differs from what is published."""

import logging

import pytest

from corrhash import InputError
from corrhash.datasets.sources import Piece, Source, from_source, source_of

SOURCE = Source(
    where=("https://example.org",),
    unpack="a.zip gives a/.",
    size="1 GB",
    licence="any",
    pieces={
        "tags": Piece("tags", ("a/tags", "tags")),
        "list": Piece("list", ("list.txt",)),
        "more": Piece("more", ("more.txt",), optional=True),
    },
    published={"pictures": 10},
)


def test_the_first_place_with_a_piece_counts(tmp_path):
    (tmp_path / "tags").mkdir()
    (tmp_path / "list.txt").write_text("")
    assert SOURCE.find(tmp_path)["tags"] == tmp_path / "tags"
    (tmp_path / "a" / "tags").mkdir(parents=True)
    found = SOURCE.find(tmp_path)
    assert found["tags"] == tmp_path / "a" / "tags"
    assert found["more"] is None


def test_everything_that_is_missing_is_listed_with_where_to_get_it(tmp_path):
    message = r"tags \(a/tags\); list \(list.txt\). Get the data at https://example.org .*a.zip"
    with pytest.raises(InputError, match=message):
        SOURCE.find(tmp_path)


def test_counts_are_said_and_compared(caplog):
    with caplog.at_level(logging.INFO, "corrhash"):
        SOURCE.compare("it", {"pictures": 10, "tags": 3})
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert "it: 10 pictures, 3 tags." in caplog.text
    SOURCE.compare("it", {"pictures": 9})
    assert "it has 9 pictures here, and 10 as published" in caplog.text


def test_a_loader_keeps_its_source():
    assert source_of(from_source(SOURCE)(lambda: None)) is SOURCE
    assert source_of(print) is None
