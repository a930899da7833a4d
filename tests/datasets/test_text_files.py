"""Text files of users: read, or refused with a sentence."""

import pytest

from corrhash import InputError
from corrhash.datasets.text_files import read_lines, read_text


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


def test_lines_of_others_may_end_and_be_encoded_in_any_way(tmp_path):
    path = tmp_path / "tags.txt"
    for content in (
        b"\xef\xbb\xbf\xc3\xa9t\xc3\xa9\r\n\r\nb \r\n",
        b"\xe9t\xe9\n\nb",
        "été\r\rb\r".encode(),
    ):
        path.write_bytes(content)
        assert read_lines(path) == ["été", "", "b"]
    path.write_bytes("a\u2028b\x85".encode())  # which are no ends of lines
    assert read_lines(path) == ["a\u2028b"]
    with pytest.raises(InputError, match="Cannot read"):
        read_lines(tmp_path)
