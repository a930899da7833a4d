"""Text files of users: read, or refused with a sentence."""

import pytest

from corrhash import InputError
from corrhash.datasets.text_files import read_text


def test_a_byte_order_mark_is_not_text(tmp_path):
    (tmp_path / "words.txt").write_bytes(b"\xef\xbb\xbfboat\r\nsea\r\n")
    assert read_text(tmp_path / "words.txt") == "boat\nsea\n"


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(InputError, match=r"Cannot read .*gone.txt: No such file.*Check the path"):
        read_text(tmp_path / "gone.txt")
    with pytest.raises(InputError, match=r"Cannot read .*: Is a directory"):
        read_text(tmp_path)
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.txt is not text in UTF-8 .*Save it in UTF-8"):
        read_text(tmp_path / "latin.txt")
