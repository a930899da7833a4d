"""Supervision: what each choice gives to a method, and what it says about it."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from corrhash import InputError
from corrhash.datasets import PairedDataset, RetrievalSplit, load_dataset, supervise
from corrhash.datasets.supervision import check_supervision
from corrhash.similarity import Similarity


@pytest.fixture(scope="module")
def split():
    return load_dataset("synthetic", n=780)


def without_labels(split):
    return replace(split, pairs=split.pairs.without_labels())


def printed(taught):
    return " ".join(taught.notes)


def test_labels_are_the_default(split):
    taught = supervise(split)
    assert taught.name == "labels"
    assert taught.train is split.train
    assert taught.validation is split.validation
    share = Similarity.from_labels(split.train.labels).share_similar
    assert printed(taught) == (
        f"Supervision: labels, 12 classes. {100 * share:.3g}% of image-text combinations in the "
        "training set are similar."
    )


def test_unlabelled_items_are_skipped_and_counted(split):
    labels = split.pairs.labels.toarray()
    unlabelled = [*split.train_rows[:7], split.validation_rows[0]]
    labels[unlabelled] = 0
    taught = supervise(replace(split, pairs=replace(split.pairs, labels=labels)), "labels")
    assert "Skipped 7 of 300 training items, which have no label." in printed(taught)
    assert taught.train.row_keys() == split.train.row_keys()[7:]
    assert taught.validation.row_keys() == split.validation.row_keys()[1:]


def test_pseudo_labels_do_not_reach_queries(split):
    taught = supervise(split, "pseudo-labels")
    names = list(taught.train.label_names)
    assert taught.train.pseudo_labels
    columns = [int(name.removeprefix("column ")) for name in names]
    for part, whole in ((taught.train, split.train), (taught.validation, split.validation)):
        carried = whole.texts[:, columns].toarray() > 0
        kept = carried.any(axis=1)
        np.testing.assert_array_equal(part.labels.toarray(), carried[kept])
        np.testing.assert_array_equal(part.images, whole.images[kept])
    assert f"12 pseudo-labels: {', '.join(names)}. " in printed(taught)
    n_left_out = len(split.train) - len(taught.train)
    skipped = f"Skipped {n_left_out} of 300 training items, which have no pseudo-label."
    assert skipped in printed(taught)
    assert split.query.labels.shape[1] == split.database.labels.shape[1] == 12


def test_pairs_are_the_default_without_labels(split):
    assert supervise(without_labels(split)).name == "pairs"
    assert supervise(without_labels(split), pairs_suffice=False).name == "pseudo-labels"
    few = replace(split, train_rows=split.train_rows[:50])  # 20 of 50 are more than a fifth
    with pytest.raises(InputError, match=r"No term occurs in at least 20 of the 50 training"):
        supervise(without_labels(few), "pseudo-labels")
    with pytest.raises(InputError, match=r"No term .*--method chn-plus --supervision pairs"):
        supervise(without_labels(few), pairs_suffice=False)
    with pytest.raises(
        InputError, match=r"synthetic has no labels. Use --supervision pseudo-labels"
    ):
        supervise(without_labels(split), "labels")


def test_a_list_of_terms_overrides_labels(split, tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("column 3\ncolumn 8  # often\n")
    taught = supervise(split, pseudo_labels_file=path)
    assert taught.name == "pseudo-labels"
    assert list(taught.train.label_names) == ["column 3", "column 8"]
    (tmp_path / "model").mkdir()
    saved = taught.save_pseudo_labels(tmp_path / "model")
    assert saved.read_text() == path.read_text()
    assert supervise(split, "pairs").save_pseudo_labels(tmp_path) is None


def test_only_the_first_pseudo_labels_are_shown(split):
    pairs = replace(split.pairs, texts=np.arange(780)[:, None] % 10 == np.arange(20) % 10)
    taught = supervise(replace(split, pairs=pairs), "pseudo-labels")
    n = len(taught.train.label_names)
    assert n > 12
    shown = ", ".join(taught.train.label_names[:12])
    assert f"{n} pseudo-labels: {shown} and {n - 12} more. " in printed(taught)


def test_a_single_pseudo_label_is_not_enough(split):
    pairs = replace(split.pairs, texts=np.arange(780)[:, None] % 10 == np.arange(1), labels=None)
    one = replace(split, pairs=pairs)
    with pytest.raises(InputError, match=r"All \d+ training texts are equal"):
        supervise(one)
    ways_out = r"have the same ones \(column 0\), .*--pseudo-labels FILE.*--supervision pairs"
    with pytest.raises(InputError, match=ways_out):
        supervise(one, pairs_suffice=False)
    with pytest.raises(InputError, match=ways_out):
        supervise(one, "pseudo-labels")


def test_terms_without_training_items_are_rejected(split, tmp_path):
    texts = split.pairs.texts.toarray()
    texts[:, 3] = 0
    (tmp_path / "words.txt").write_text("column 3\n")
    with pytest.raises(InputError, match=r"No training item contains a term from"):
        supervise(
            replace(split, pairs=replace(split.pairs, texts=texts)),
            "pseudo-labels",
            tmp_path / "words.txt",
        )


def test_items_without_text_are_no_pairs(split):
    texts = split.pairs.texts.toarray()
    texts[split.train_rows[:9]] = 0
    part = replace(split, pairs=replace(split.pairs, texts=texts))
    taught = supervise(part, "pairs")
    assert "Skipped 9 of 300 training items without text." in printed(taught)
    assert taught.train.row_keys() == split.train.row_keys()[9:]
    empty = replace(split, pairs=replace(split.pairs, texts=0 * texts))
    with pytest.raises(InputError, match="All training texts are empty"):
        supervise(empty, "pairs")


def test_pairs_are_similar_to_their_own_text_only(split):
    taught = supervise(split, "pairs")
    assert taught.train.labels is None
    assert taught.train.aligned
    np.testing.assert_array_equal(taught.validation.similarity.block(), 2 * np.eye(40) - 1)
    assert "0.333% of image-text combinations in the training set are similar" in printed(taught)


@pytest.mark.parametrize("kind", [np.array, sp.csr_array, sp.csc_array])
def test_equal_term_vectors_are_similar(kind):
    pairs = PairedDataset(np.eye(4), kind([[1, 0, 2.0], [0, 1, 0], [1, 0, 2.0], [1, 0, 1.0]]))
    rows = np.arange(4)
    split = RetrievalSplit(pairs, rows, rows[:0], rows[:0], rows)
    similar = supervise(split).train.similarity.block() > 0
    np.testing.assert_array_equal(np.argwhere(np.triu(similar, 1)), [[0, 2]])
    assert similar.diagonal().all()


def test_equal_strings_are_similar():
    pairs = PairedDataset(np.eye(3), ["a boat", "a dog", "a boat"])
    rows = np.arange(3)
    split = RetrievalSplit(pairs, rows, rows[:0], rows[:0], rows)
    similar = supervise(split, "pairs").train.similarity.block() > 0
    np.testing.assert_array_equal(similar, [[1, 0, 1], [0, 1, 0], [1, 0, 1]])


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


def test_judgments_train_without_queries(split, tmp_path):
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
    assert "3,600 judgments about training items" in printed(taught)
    assert "240 training images and 240 training texts have no judgment" in printed(taught)
    n_skipped = 62 * 62 - 3600
    assert f"Skipped {n_skipped} judgments that involve queries, and 0 whose" in printed(taught)
    assert "Ignored repeated lines: 1 (the first is line" in printed(taught)
    assert "validation pairs that are judged similar" in printed(taught)


def test_few_validation_judgments_hold_out_a_tenth(split, tmp_path):
    taught = supervise(split, judged_file(split, tmp_path, validation=False))
    assert taught.validation is None
    assert "Only 0 validation pairs are judged similar, so a tenth" in printed(taught)


def test_judgments_without_training_items_are_rejected(split, tmp_path):
    key = split.query.row_keys()[0]
    (tmp_path / "clicks.csv").write_text(f"{key},{key},1\n")
    with pytest.raises(InputError, match=r"None of the 1 judgments in .* relates a training image"):
        supervise(split, tmp_path / "clicks.csv")


def test_unsupervised_methods_get_the_plain_pairs(split):
    taught = supervise(split, "pseudo-labels", needed=False)
    assert (taught.name, taught.train) == ("none", split.train)
    assert taught.notes == (
        "Supervision: none; the method learns from the pairs alone, and ignores 'pseudo-labels'.",
    )
    assert supervise(split, needed=False).notes[0].endswith("from the pairs alone.")


def test_empty_texts_are_counted():
    texts = ["boat"] * 30 + [""] * 3 + ["sea"] * 60 + ["tree"] * 7
    pairs = PairedDataset(np.ones((100, 2)), texts, labels=np.eye(2)[np.arange(100) % 2])
    rows = np.arange(100)
    split = RetrievalSplit(pairs, rows[:80], rows[80:90], rows[90:], rows[:90])
    assert "3 of 80 training texts contain no term from the vocabulary" in printed(supervise(split))


@pytest.mark.parametrize(
    ("choice", "pseudo_labels_file", "message"),
    [
        ("label", None, r"Unknown supervision 'label'.*mean 'labels'\? Use one of: labels"),
        ("labels", "w.txt", r"requires the supervision 'pseudo-labels', got 'labels'"),
        (None, "gone.txt", r"Cannot read gone.txt"),
    ],
)
def test_invalid_choices_are_rejected(choice, pseudo_labels_file, message):
    with pytest.raises(InputError, match=message):
        check_supervision(choice, pseudo_labels_file)
