"""Words as labels: neither rare nor common ones, counted on training items, in a list to edit."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import PairedDataset, Reader, RetrievalSplit, Vocabulary
from corrhash.datasets.pseudo_labels import TermTable, choose_pseudo_labels

N_TRAIN, N_VALIDATION, N_QUERY = 200, 10, 90


def texts_with(counts):
    """Texts of which the first ``counts[word]`` carry each word."""
    n = N_TRAIN + N_VALIDATION + N_QUERY
    return [" ".join(word for word, count in counts.items() if i < count) for i in range(n)]


def split_of(texts, *, read=True):
    """The first items train, the next validate, the last are asked."""
    reader = Reader(Vocabulary.fit(texts)) if read else None
    n = len(texts)
    pairs = PairedDataset(np.ones((n, 2)), texts)
    train, validation, query = np.split(np.arange(n), [N_TRAIN, N_TRAIN + N_VALIDATION])
    split = RetrievalSplit(pairs, train, validation, query, np.arange(n - N_QUERY))
    return reader.read_split(split) if read else split


COUNTS = {"the": 300, "sea": 41, "boat": 40, "café": 30, "tree": 20, "rare": 19}


@pytest.mark.parametrize("read", [True, False], ids=["occurrences", "strings"])
def test_terms_of_20_items_to_a_fifth_qualify(read):
    words = choose_pseudo_labels(split_of(texts_with(COUNTS), read=read))
    assert words.names == ["boat", "café", "tree"]
    assert words.labels.sum(axis=0).tolist() == [40, 30, 20]
    np.testing.assert_array_equal(words.labels[[0, 20, 30]].toarray(), np.tri(3)[::-1])


def test_terms_are_counted_on_training_items():
    texts = texts_with({"the": 300, "tree": 20})
    texts[N_TRAIN:] = ["hidden"] * (N_VALIDATION + N_QUERY)
    assert choose_pseudo_labels(split_of(texts)).names == ["tree"]


def test_stop_words_count_only_if_listed(tmp_path):
    split = split_of(texts_with({"with": 30, "boat": 40}))
    assert choose_pseudo_labels(split).names == ["boat"]
    (tmp_path / "words.txt").write_text("with\n")
    assert choose_pseudo_labels(split, tmp_path / "words.txt").names == ["with"]


def test_columns_without_a_vocabulary_are_named_by_number():
    split = split_of(texts_with(COUNTS))
    table = PairedDataset(split.pairs.images, split.pairs.texts.toarray() * 0.5)
    unnamed = RetrievalSplit(
        table, split.train_rows, split.validation_rows, split.query_rows, split.database_rows
    )
    words = choose_pseudo_labels(unnamed)
    assert words.names == ["column 0", "column 1", "column 5"]  # in order of the alphabet
    assert set(words.labels.data) == {1}


def test_no_term_may_qualify():
    assert choose_pseudo_labels(split_of(texts_with({"the": 300, "rare": 5}))).names == []


def test_a_saved_list_gives_the_same_terms(tmp_path):
    split = split_of(texts_with(COUNTS))
    words = choose_pseudo_labels(split)
    assert "boat  # 40\n" in words.text
    (tmp_path / "words.txt").write_text(words.text)
    again = choose_pseudo_labels(split, tmp_path / "words.txt")
    assert (again.names, again.text) == (words.names, words.text)
    assert (again.labels != words.labels).nnz == 0


def test_a_list_can_name_any_term(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("# mine\n\n rare # seldom\nsea\nrare\n")
    words = choose_pseudo_labels(split_of(texts_with(COUNTS)), path)
    assert words.names == ["rare", "sea"]
    assert words.labels.sum(axis=0).tolist() == [19, 41]
    assert words.text == path.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sea\nbaot\n", r"Line 2 of .*words.txt: the term 'baot' is not in.*mean 'boat'\? Corr"),
        ("see\ngull\n", r"'see' \(and 1 more\) is not in.*'sea'"),
        ("# nothing\n", r"words.txt lists no terms. Write one per line"),
    ],
)
def test_mistakes_in_a_list_are_explained(tmp_path, text, message):
    (tmp_path / "words.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        choose_pseudo_labels(split_of(texts_with(COUNTS)), tmp_path / "words.txt")


def test_counts_equal_a_loop_over_items():
    split = split_of(texts_with(COUNTS))
    table = TermTable.from_split(split)
    texts = texts_with(COUNTS)[:N_TRAIN]
    slow = [sum(name in text.split() for text in texts) for name in table.names]
    assert table.counts.tolist() == slow
