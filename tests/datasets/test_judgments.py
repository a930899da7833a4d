"""Files of relevance judgments: delimiters, headers, and errors that name the line."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.datasets.judgments import read_judgments, split_judgments
from corrhash.datasets.splits import draw_split

KEYS = ["a.jpg", "b.jpg", "c, d.jpg"]


def read(tmp_path, text, keys=KEYS):
    (tmp_path / "clicks.csv").write_text(text)
    return read_judgments(tmp_path / "clicks.csv", keys)


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
def test_each_line_is_a_judgment(tmp_path, text):
    judgments = read(tmp_path, text)
    assert judgments.triples.tolist() == [[0, 1, 1], [2, 0, -1]]
    assert judgments.repeated == []


def test_repeated_lines_count_once(tmp_path):
    judgments = read(tmp_path, "a.jpg,b.jpg,1\nb.jpg,a.jpg,1\na.jpg,b.jpg,+1\n")
    assert judgments.triples.tolist() == [[0, 1, 1], [1, 0, 1]]
    assert judgments.repeated == [3]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.jpg,b.jpg,1\na.jpg,d.jpg,1\n", r"Line 2 of .*clicks.csv: the text 'd.jpg' is not in"),
        ("x,y,z\nbb.jpg,x,1\n", r"Line 2 .* image 'bb.jpg' \(and 1 more\).*mean 'b.jpg'"),
        ("a.jpg,b.jpg,yes\n", r"must be 1 or -1, got 'yes' in line 1 of .*clicks.csv. Delete"),
        ("x,y,z\n\na.jpg,b.jpg,0\na.jpg,b.jpg,2\n", r"got '0' in line 3 .*\(and 1 more\)"),
        ("a.jpg,b.jpg,1\n\na.jpg,b.jpg,-1\n", r"Lines 1 and 3 of .* 'a.jpg' and the text 'b.jpg'"),
        (
            "a.jpg,b.jpg\n",
            r"Line 1 of .* has 2 fields, expected 3: image key, text key and 1 or -1",
        ),
        ("image,text,similar\n", r"clicks.csv contains no judgments. Each line"),
        ("", r"clicks.csv contains no judgments"),
    ],
)
def test_mistakes_are_reported_with_their_lines(tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        read(tmp_path, text)


def test_repeated_keys_are_rejected(tmp_path):
    with pytest.raises(InputError, match=r"Rows 0 and 2 of the dataset have the same key 'a'"):
        read(tmp_path, "a,b,1\n", keys=["a", "b", "a"])


def test_judgments_about_queries_are_not_trained_on():
    split = draw_split(make_pairs(30), "example", 0, n_query=6, n_validation=8, n_train=10)
    rng = np.random.default_rng(0)
    cells = rng.permutation(900)[:400]
    triples = np.column_stack([cells // 30, cells % 30, rng.choice([-1, 1], 400)])
    judged = split_judgments(triples, split)
    train, validation = np.zeros((10, 10), int), np.zeros((8, 8), int)
    n_of_queries = n_across = 0
    parts = [rows.tolist() for rows in (split.train_rows, split.validation_rows, split.query_rows)]
    for image, text, value in triples.tolist():
        if image in parts[0] and text in parts[0]:
            train[parts[0].index(image), parts[0].index(text)] = value
        elif image in parts[1] and text in parts[1]:
            validation[parts[1].index(image), parts[1].index(text)] = value
        elif image in parts[2] or text in parts[2]:
            n_of_queries += 1
        else:
            n_across += 1
    np.testing.assert_array_equal(judged.train.block(), train)
    np.testing.assert_array_equal(judged.validation.block(), validation)
    assert (judged.n_of_queries, judged.n_across) == (n_of_queries, n_across)
    assert min(n_of_queries, n_across) > 50
