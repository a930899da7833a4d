"""What each method promises, checked for every name in METHODS."""

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset, make_pairs, supervise
from corrhash.experiments.settings import new_hasher
from corrhash.experiments.tuning import MOST_CONFIGURATIONS, configurations
from corrhash.methods import METHODS, Hasher
from corrhash.metrics import evaluate
from corrhash.relevance import Similarity

N_BITS = 16


def quick(name, n_bits=N_BITS):
    """A method with its defaults; networks are small and train for a few epochs only."""
    method = METHODS[name]
    arguments = {}
    if "training" in inspect.signature(method.__init__).parameters:
        from corrhash.methods.training import Training
        from corrhash.methods.two_networks import Networks

        arguments = {
            "training": Training(epochs=12, learning_rate=3e-3, validate_every=6),
            "networks": Networks(width=128),
        }
    return method(n_bits, **arguments)


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(900, seed=1)


@pytest.fixture(scope="module")
def fitted(pairs):
    """Each method, trained once on the first 600 pairs."""
    hashers = {}

    def of(name):
        if name not in hashers:
            hashers[name] = quick(name).fit(pairs.take(slice(0, 600)))
        return hashers[name]

    return of


pytestmark = pytest.mark.parametrize("name", list(METHODS))


def test_the_constructor_only_stores_its_arguments(name):
    method = METHODS[name]
    parameters = list(inspect.signature(method.__init__).parameters)[1:]
    hasher = method(n_bits=24)
    assert sorted(vars(hasher)) == sorted(parameters)
    assert hasher.get_params() == {p: getattr(hasher, p) for p in parameters}
    assert hasher.get_params()["n_bits"] == 24


def test_the_class_tells_what_it_is_and_shows_an_example(name):
    page = inspect.getdoc(METHODS[name])
    for part in ("Parameters", "References", "Examples", ">>> ", "Relatives:", "Needs "):
        assert part in page


def test_the_documents_have_a_page_and_the_readme_a_row(name):
    root = Path(__file__).parent.parent
    file = METHODS[name].__module__.rpartition(".")[2]  # variants share the file of their method
    assert (root / "docs" / "methods" / f"{file}.md").exists()
    assert f"\n{file}\n" in (root / "docs" / "methods" / "index.md").read_text()
    assert f"`{name}`" in (root / "README.md").read_text()
    assert (root / "tests" / "methods" / f"test_{file}.py").exists()


def test_fit_returns_the_hasher(name, pairs):
    hasher = quick(name)
    assert hasher.fit(pairs.take(slice(0, 300))) is hasher


def test_encoding_before_fitting_says_so(name, pairs):
    for call in ("encode_image", "encode_text", "score_image", "score_text"):
        with pytest.raises(InputError, match="has not learned yet. Call fit first"):
            getattr(quick(name), call)(pairs.images)
    with pytest.raises(InputError, match="has not learned yet"):
        quick(name).save("nowhere")


def test_codes_are_the_signs_of_the_scores(name, pairs, fitted):
    hasher = fitted(name)
    for side in ("image", "text"):
        values = getattr(pairs, f"{side}s")
        scores = getattr(hasher, f"score_{side}")(values)
        codes = getattr(hasher, f"encode_{side}")(values)
        assert scores.shape == (len(pairs), N_BITS)
        np.testing.assert_array_equal(codes.signs() > 0, scores > 0)


def test_one_item_gets_the_same_code_alone_or_in_a_batch(name, pairs, fitted):
    hasher = fitted(name)
    for side in ("image", "text"):
        values, score = getattr(pairs, f"{side}s"), getattr(hasher, f"score_{side}")
        together = score(values)
        for row in (0, 7, 850):
            alone = score(values[row : row + 1])
            np.testing.assert_allclose(alone, together[row : row + 1], atol=1e-5)
            clear = abs(together[row]) > 1e-5
            np.testing.assert_array_equal((alone[0] > 0)[clear], (together[row] > 0)[clear])


def test_the_same_seed_gives_the_same_codes(name, pairs, fitted):
    again = quick(name).fit(pairs.take(slice(0, 600)))
    for side in ("image", "text"):
        first, second = (
            getattr(h, f"encode_{side}")(getattr(pairs, f"{side}s")) for h in (fitted(name), again)
        )
        np.testing.assert_array_equal(first.packed, second.packed)


def test_inputs_are_left_unchanged(name, pairs):
    part = pairs.take(slice(0, 300))
    images, texts, labels = part.images.copy(), part.texts.copy(), part.labels.copy()
    hasher = quick(name).fit(part)
    hasher.encode_image(part.images)
    hasher.encode_text(part.texts)
    np.testing.assert_array_equal(part.images, images)
    assert (part.texts != texts).nnz == 0
    assert (part.labels != labels).nnz == 0


def test_dense_and_sparse_texts_give_the_same_codes(name, pairs, fitted):
    hasher = fitted(name)
    scores = hasher.score_text(pairs.texts.toarray())
    np.testing.assert_allclose(scores, hasher.score_text(pairs.texts), atol=1e-9)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_])
def test_tags_of_small_integers_are_learned_like_real_numbers(name, pairs, fitted, dtype):
    part = pairs.take(slice(0, 600))
    hasher = quick(name).fit(replace(part, texts=part.texts.astype(dtype)))
    codes, expected = (h.encode_text(pairs.texts) for h in (hasher, fitted(name)))
    np.testing.assert_array_equal(codes.packed, expected.packed)


def test_saving_and_loading_gives_the_same_codes(name, pairs, fitted, tmp_path):
    hasher = fitted(name)
    hasher.save(tmp_path / "model")
    again = Hasher.load(tmp_path / "model")
    assert type(again) is type(hasher)
    assert again.get_params() == hasher.get_params()
    for side in ("image", "text"):
        values = getattr(pairs, f"{side}s")
        first, second = (getattr(h, f"encode_{side}")(values) for h in (hasher, again))
        np.testing.assert_array_equal(first.packed, second.packed)


def test_synthetic_pairs_are_learned_well_above_chance(name, pairs, fitted):
    hasher = fitted(name)
    query, database = pairs.take(slice(600, 700)), pairs.take(slice(700, 900))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    for queries, answers in directions:
        assert evaluate(queries, answers, query.labels, database.labels).map > chance + 0.03


def test_labels_are_asked_for_or_never_seen(name, pairs, fitted):
    method = METHODS[name]
    part = pairs.take(slice(0, 600))
    if method.needs_labels:
        with pytest.raises(InputError, match="learns from labels, and these pairs have none"):
            quick(name).fit(part.without_labels())
        return
    shuffled = replace(part, labels=part.labels[np.random.default_rng(0).permutation(600)])
    for other in (shuffled, part.without_labels()):
        codes = quick(name).fit(other).encode_image(pairs.images)
        np.testing.assert_array_equal(codes.packed, fitted(name).encode_image(pairs.images).packed)


def test_words_teach_a_method_that_needs_labels(name):
    if not METHODS[name].needs_labels:
        pytest.skip(f"{name} learns from pairs alone")
    taught = supervise(load_dataset("synthetic", n=780), "words")
    codes = quick(name).fit(taught.train, taught.validation).encode_image(taught.train.images)
    assert codes.n_distinct() > 1


def test_the_pairing_alone_teaches_or_is_refused(name):
    taught = supervise(load_dataset("synthetic", n=780), "pairs")
    if METHODS[name].needs_labels and not METHODS[name].learns_from_partners:
        with pytest.raises(InputError, match=r"learns from labels.*--supervision words"):
            quick(name).fit(taught.train, taught.validation)
        return
    codes = quick(name).fit(taught.train, taught.validation).encode_image(taught.train.images)
    assert codes.n_distinct() > 1


def test_texts_without_any_word_are_refused(name, pairs):
    empty = replace(pairs, texts=pairs.texts * 0)
    with pytest.raises(InputError, match="All 900 texts are empty: no word of the vocabulary"):
        quick(name).fit(empty)


def test_unaligned_pairs_are_refused_where_alignment_is_needed(name, pairs):
    method = METHODS[name]
    if not method.needs_alignment:
        pytest.skip(f"{name} learns from judged pairs of images and texts that are not aligned")
    judged = Similarity.from_pairs([(0, 1, 1), (2, 0, -1)], shape=(900, 900))
    unaligned = replace(pairs, labels=None, similarity=judged)
    with pytest.raises(InputError, match="row i of images and texts must belong together"):
        quick(name).fit(unaligned)


@pytest.mark.parametrize("n_bits", [0, 1025, 2.5])
def test_a_length_that_codes_cannot_have_is_refused(name, pairs, n_bits):
    with pytest.raises(InputError, match="n_bits must be"):
        quick(name, n_bits).fit(pairs)


def test_no_pairs_at_all_are_refused(name, pairs):
    with pytest.raises(InputError, match="cannot learn from 0 pairs"):
        quick(name).fit(pairs.take(slice(0, 0)))


def test_items_of_another_width_are_refused(name, pairs, fitted):
    with pytest.raises(InputError, match=r"trained on 256 columns of images. Got 255"):
        fitted(name).encode_image(pairs.images[:, 1:])
    with pytest.raises(InputError, match=r"trained on 400 columns of texts. Got 399"):
        fitted(name).encode_text(pairs.texts[:, 1:])


def test_the_grid_holds_valid_settings_and_no_more_than_the_budget(name):
    tried = configurations(METHODS[name].grid)
    assert 1 < len(tried) <= MOST_CONFIGURATIONS
    for params in tried:
        hasher = new_hasher(METHODS[name], N_BITS, params)
        assert {p: setting(hasher, p) for p in params} == params


def setting(hasher, name):
    """``training.epochs`` is the field of a parameter."""
    outer, _, inner = name.partition(".")
    value = getattr(hasher, outer)
    return getattr(value, inner) if inner else value
