"""Supervision: what each choice gives to a method, and what it says about it."""

from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import PairedDataset, RetrievalSplit, load_dataset, supervise
from corrhash.datasets.supervision import check_choice
from corrhash.relevance import Similarity


@pytest.fixture(scope="module")
def split():
    return load_dataset("synthetic", n=780)


def without_labels(split):
    return replace(split, pairs=split.pairs.without_labels())


def said(taught):
    return " ".join(taught.notes)


def test_labels_are_taken_where_there_are_any(split):
    taught = supervise(split)
    assert taught.name == "labels"
    assert taught.train is split.train
    assert taught.validation is split.validation
    assert "labels, 12 classes. 0 of 300 training items carry none" in said(taught)
    share = Similarity.from_labels(split.train.labels).share_similar
    assert f"{100 * share:.3g} % of the training pairs are similar" in said(taught)


def test_items_without_a_label_are_left_out_and_counted(split):
    labels = split.pairs.labels.toarray()
    unlabelled = [*split.train_rows[:7], split.validation_rows[0]]
    labels[unlabelled] = 0
    taught = supervise(replace(split, pairs=replace(split.pairs, labels=labels)), "labels")
    assert "7 of 300 training items carry none and are left out" in said(taught)
    assert taught.train.row_keys() == split.train.row_keys()[7:]
    assert taught.validation.row_keys() == split.validation.row_keys()[1:]


def test_words_act_as_labels_in_training_and_validation_alone(split):
    taught = supervise(split, "words")
    names = list(taught.train.label_names)
    assert taught.train.labels_are_words
    columns = [int(name.removeprefix("column ")) for name in names]
    for part, whole in ((taught.train, split.train), (taught.validation, split.validation)):
        carried = whole.texts[:, columns].toarray() > 0
        kept = carried.any(axis=1)
        np.testing.assert_array_equal(part.labels.toarray(), carried[kept])
        np.testing.assert_array_equal(part.images, whole.images[kept])
    assert f"12 words act as labels: {', '.join(names)}. " in said(taught)
    n_left_out = len(split.train) - len(taught.train)
    assert f"{n_left_out} of 300 training items carry none and are left out" in said(taught)
    assert split.query.labels.shape[1] == split.database.labels.shape[1] == 12


def test_without_labels_words_are_taken_and_without_words_the_pairs(split):
    assert supervise(without_labels(split)).name == "words"
    few = replace(split, train_rows=split.train_rows[:50])  # 20 of 50 are more than a fifth
    assert supervise(without_labels(few)).name == "pairs"
    with pytest.raises(InputError, match=r"No word is carried by at least 20 of the 50 training"):
        supervise(without_labels(few), "words")
    with pytest.raises(InputError, match=r"synthetic has no labels. Let words act"):
        supervise(without_labels(split), "labels")


def test_a_list_of_words_means_words_even_where_there_are_labels(split, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("column 3\ncolumn 8  # often\n")
    taught = supervise(split, words_file=path)
    assert taught.name == "words"
    assert list(taught.train.label_names) == ["column 3", "column 8"]
    (tmp_path / "model").mkdir()
    saved = taught.save_words(tmp_path / "model")
    assert saved.read_text() == path.read_text()
    assert supervise(split, "pairs").save_words(tmp_path) is None


def test_of_many_words_the_first_are_shown(split):
    pairs = replace(split.pairs, texts=np.arange(780)[:, None] % 10 == np.arange(20) % 10)
    taught = supervise(replace(split, pairs=pairs), "words")
    n = len(taught.train.label_names)
    assert n > 12
    shown = ", ".join(taught.train.label_names[:12])
    assert f"{n} words act as labels: {shown} and {n - 12} more. " in said(taught)


def test_words_that_no_training_item_carries_are_refused(split, tmp_path):
    texts = split.pairs.texts.toarray()
    texts[:, 3] = 0
    (tmp_path / "words.txt").write_text("column 3\n")
    with pytest.raises(InputError, match=r"No training item carries one of the words in"):
        supervise(
            replace(split, pairs=replace(split.pairs, texts=texts)), "words", tmp_path / "words.txt"
        )


def test_pairs_know_their_partners_alone(split):
    taught = supervise(split, "pairs")
    assert taught.train.labels is None
    assert taught.train.aligned
    np.testing.assert_array_equal(taught.validation.similarity.block(), 2 * np.eye(40) - 1)
    assert "0.333 % of the training pairs are similar" in said(taught)


def judged_file(split, tmp_path, *, validation=True):
    """A file that judges all pairs of some items by their labels."""
    rows = np.concatenate([split.train_rows[:60], split.query_rows[:2]])
    groups = [rows, split.validation_rows] if validation else [rows]
    keys, truth = split.pairs.row_keys(), Similarity.from_labels(split.pairs.labels)
    lines = ["image,text,similar"]
    for group in groups:
        block = truth.block(group, group)
        lines += [
            f"{keys[i]},{keys[j]},{block[a, b]}"
            for a, i in enumerate(group)
            for b, j in enumerate(group)
        ]
    path = tmp_path / "clicks.csv"
    path.write_text("\n".join([*lines, lines[1]]))
    return path


def test_judged_pairs_teach_without_their_queries(split, tmp_path):
    taught = supervise(split, judged_file(split, tmp_path))
    truth = Similarity.from_labels(split.train.labels).block()
    expected = np.zeros((300, 300))
    expected[:60, :60] = truth[:60, :60]
    np.testing.assert_array_equal(taught.train.similarity.block(), expected)
    assert taught.train.labels is None
    np.testing.assert_array_equal(
        taught.validation.similarity.block(),
        Similarity.from_labels(split.validation.labels).block(),
    )
    assert taught.name == "clicks.csv"
    assert "3,600 judged pairs of training items" in said(taught)
    assert "240 training images and 240 training texts are in no judged pair" in said(taught)
    assert f"{62 * 62 - 3600} judged pairs touch a query and are left out; 0 more" in said(taught)
    assert "1 lines say again what another line says (the first is line" in said(taught)
    assert "similar pairs among validation items" in said(taught)


def test_with_few_judged_validation_pairs_a_tenth_is_held_out(split, tmp_path):
    taught = supervise(split, judged_file(split, tmp_path, validation=False))
    assert taught.validation is None
    assert "Only 0 similar pairs are among validation items, so that a tenth" in said(taught)


def test_judged_pairs_of_other_items_than_training_ones_are_refused(split, tmp_path):
    key = split.query.row_keys()[0]
    (tmp_path / "clicks.csv").write_text(f"{key},{key},1\n")
    with pytest.raises(InputError, match=r"None of the 1 judged pairs in .* is of two training"):
        supervise(split, tmp_path / "clicks.csv")


def test_a_method_that_needs_none_is_given_the_pairs_as_they_are(split):
    taught = supervise(split, "words", needed=False)
    assert (taught.name, taught.train) == ("none", split.train)
    assert taught.notes == (
        "Supervision: none; the method learns from the pairs alone, and 'words' plays no part.",
    )
    assert supervise(split, needed=False).notes[0].endswith("from the pairs alone.")


def test_texts_without_a_word_are_counted():
    texts = ["boat"] * 30 + [""] * 3 + ["sea"] * 60 + ["tree"] * 7
    pairs = PairedDataset(np.ones((100, 2)), texts, labels=np.eye(2)[np.arange(100) % 2])
    rows = np.arange(100)
    split = RetrievalSplit(pairs, rows[:80], rows[80:90], rows[90:], rows[:90])
    assert "3 of 80 training texts have no word of the vocabulary" in said(supervise(split))


@pytest.mark.parametrize(
    ("choice", "words_file", "message"),
    [
        ("word", None, r"no supervision 'word', and no such file.*mean 'words'\? Choose labels"),
        ("labels", "w.txt", r"goes with the supervision 'words'. Got 'labels'"),
        (None, "gone.txt", r"Cannot read gone.txt"),
    ],
)
def test_a_choice_that_is_none_is_told_before_the_work(choice, words_file, message):
    with pytest.raises(InputError, match=message):
        check_choice(choice, words_file)
