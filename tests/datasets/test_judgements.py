"""Files of judged pairs: commas or tabs, a heading or none, mistakes told with their lines."""

import pytest

from corrhash import InputError
from corrhash.datasets.judgements import read_judgements

KEYS = ["a.jpg", "b.jpg", "c, d.jpg"]


def read(tmp_path, text, keys=KEYS):
    (tmp_path / "clicks.csv").write_text(text)
    return read_judgements(tmp_path / "clicks.csv", keys)


@pytest.mark.parametrize(
    "text",
    [
        'a.jpg,b.jpg,1\n"c, d.jpg",a.jpg,-1\n',
        'image,text,similar\na.jpg, b.jpg, +1\n\n"c, d.jpg",a.jpg,-1',
        "a.jpg\tb.jpg\t1\nc, d.jpg\ta.jpg\t-1\n",
        "\ufeffimage\ttext\tsimilar\r\na.jpg\tb.jpg\t1\r\nc, d.jpg\ta.jpg\t-1\r\n",
    ],
    ids=["commas", "heading", "tabs", "of a spreadsheet"],
)
def test_each_line_judges_an_image_and_a_text(tmp_path, text):
    judgements = read(tmp_path, text)
    assert judgements.triples.tolist() == [[0, 1, 1], [2, 0, -1]]
    assert judgements.repeated == []


def test_what_is_said_twice_counts_once(tmp_path):
    judgements = read(tmp_path, "a.jpg,b.jpg,1\nb.jpg,a.jpg,1\na.jpg,b.jpg,+1\n")
    assert judgements.triples.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert judgements.repeated == [3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.jpg,b.jpg,1\na.jpg,d.jpg,1\n", r"Line 2 of .*clicks.csv names the text 'd.jpg', whi"),
        ("x,y,z\nbb.jpg,x,1\n", r"Line 2 .* image 'bb.jpg' \(and 1 more like it\).*mean 'b.jpg'"),
        ("a.jpg,b.jpg,yes\n", r"must be 1 or -1. Got 'yes' in line 1 of .*clicks.csv. Leave"),
        ("x,y,z\n\na.jpg,b.jpg,0\na.jpg,b.jpg,2\n", r"Got '0' in line 3 .*\(and 1 more like it\)"),
        ("a.jpg,b.jpg,1\n\na.jpg,b.jpg,-1\n", r"Lines 1 and 3 of .* 'a.jpg' and the text 'b.jpg' "),
        ("a.jpg,b.jpg\n", r"Line 1 of .* has 2 cells. Write image key, text key and 1 or -1"),
        ("image,text,similar\n", r"clicks.csv has no judged pair. Write"),
        ("", r"clicks.csv has no judged pair"),
    ],
)
def test_mistakes_are_told_with_their_lines(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_keys_that_are_not_unique_are_told(tmp_path):
    with pytest.raises(InputError, match=r"Rows 0 and 2 of the dataset have the same key 'a'"):
        read(tmp_path, "a,b,1\n", keys=["a", "b", "a"])
