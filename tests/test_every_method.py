"""The estimator contract, checked for every method in METHODS."""

import inspect
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import corrhash.methods
from corrhash import InputError
from corrhash.datasets import load_dataset, make_pairs, supervise
from corrhash.experiments.options import new_hasher
from corrhash.experiments.plan import MAX_CONFIGURATIONS, configurations
from corrhash.methods import METHODS, Hasher
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.metrics import evaluate
from corrhash.similarity import Similarity

N_BITS = 16


def quick(name, n_bits=N_BITS):
    """A method with its defaults; networks are small and train for a few epochs only."""
    hasher = METHODS[name](n_bits)
    if "training" in hasher.get_params():
        hasher.set_params(
            training__epochs=12,
            training__learning_rate=3e-3,
            training__validate_every=6,
            networks__width=128,
        )
    return hasher


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


def test_class_is_exported(name):
    method = METHODS[name]
    assert getattr(corrhash.methods, method.__name__) is method
    assert method.__name__ in corrhash.methods.__all__


def test_constructor_only_stores_its_arguments(name):
    method = METHODS[name]
    parameters = list(inspect.signature(method.__init__).parameters)[1:]
    hasher = method(n_bits=24)
    assert sorted(vars(hasher)) == sorted(parameters)
    assert hasher.get_params(deep=False) == {p: getattr(hasher, p) for p in parameters}
    assert hasher.n_bits == 24


def test_get_params_includes_nested_fields(name):
    hasher = METHODS[name]()
    shallow, deep = hasher.get_params(deep=False), hasher.get_params()
    nested = {
        f"{outer}__{field.name}": getattr(value, field.name)
        for outer, value in shallow.items()
        if is_dataclass(value)
        for field in fields(value)
    }
    assert deep == shallow | nested


def test_set_params_sets_every_parameter(name):
    hasher = METHODS[name](n_bits=8)
    marks = {parameter: object() for parameter in hasher.get_params(deep=False)}
    assert hasher.set_params(**marks) is hasher
    assert hasher.get_params(deep=False) == marks
    hasher = METHODS[name](n_bits=8)
    nested = {"training__epochs": 7, "networks__width": 9}
    known = {name: value for name, value in nested.items() if name in hasher.get_params()}
    assert known.items() <= hasher.set_params(**known).get_params().items()
    with pytest.raises(InputError, match="has no parameter 'nothing'. Valid parameters: n_bits"):
        hasher.set_params(nothing=1)


def test_clone_copies_parameters_and_nothing_learned(name, pairs, fitted):
    hasher = fitted(name)
    copy = clone(hasher)
    assert type(copy) is type(hasher)
    assert copy.get_params() == hasher.get_params()
    with pytest.raises(InputError, match="not fitted"):
        copy.encode_image(pairs.images)


def test_documentation_has_a_page_and_a_table_row(name):
    folder = Path(__file__).parent.parent / "docs" / "reference" / "methods"
    file = METHODS[name].__module__.rpartition(".")[2]  # variants share the file of their method
    assert (folder / f"{file}.md").exists()
    index = (folder / "index.md").read_text()
    assert f"\n{file}\n" in index
    assert f"`{name}`" in index


def test_fit_returns_the_hasher(name, pairs):
    hasher = quick(name)
    assert hasher.fit(pairs.take(slice(0, 300))) is hasher


class WithoutFloat64(TorchDispatchMode):
    """Refuses tensors in float64, as Apple's GPUs do."""

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if any(
            leaf.dtype == torch.float64 for leaf in tree_leaves(result) if torch.is_tensor(leaf)
        ):
            raise TypeError(f"{function} returns float64")
        return result


def test_networks_train_without_float64(name, pairs):
    if not issubclass(METHODS[name], NetworkHasher):
        pytest.skip(f"{name} trains no networks")
    part = pairs.take(slice(0, 300))
    supervised = [part]
    if METHODS[name].learns_from_pairs:
        supervised.append(replace(part, labels=None, similarity=Similarity.paired(len(part))))
    for each in supervised:
        with WithoutFloat64():
            quick(name).set_params(training__epochs=1, training__validate_every=1).fit(each)


def test_fit_takes_arrays(name, pairs):
    train, validation = pairs.take(slice(0, 300)), pairs.take(slice(300, 360))
    expected = quick(name).fit(train, validation=validation).encode_image(pairs.images)
    held_out = validation.images, validation.texts, validation.labels.toarray()
    dense = train.images, train.texts.toarray(), train.labels.toarray()
    found = quick(name).fit(*dense, validation=held_out).encode_image(pairs.images)
    np.testing.assert_array_equal(found.packed, expected.packed)


def test_encoding_before_fitting_is_refused(name, pairs):
    for call in ("encode_image", "encode_text", "embed_image", "embed_text"):
        with pytest.raises(InputError, match="is not fitted yet. Call fit first"):
            getattr(quick(name), call)(pairs.images)
    with pytest.raises(InputError, match="is not fitted yet"):
        quick(name).save("nowhere")


def test_codes_are_the_signs_of_continuous_codes(name, pairs, fitted):
    hasher = fitted(name)
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        continuous = getattr(hasher, f"embed_{modality}")(values)
        codes = getattr(hasher, f"encode_{modality}")(values)
        assert continuous.shape == (len(pairs), N_BITS)
        np.testing.assert_array_equal(codes.signs() > 0, continuous > 0)


def test_codes_do_not_depend_on_the_batch(name, pairs, fitted):
    hasher = fitted(name)
    for modality in ("image", "text"):
        values, embed = getattr(pairs, f"{modality}s"), getattr(hasher, f"embed_{modality}")
        together = embed(values)
        for row in (0, 7, 850):
            alone = embed(values[row : row + 1])
            np.testing.assert_allclose(alone, together[row : row + 1], atol=1e-5)
            clear = abs(together[row]) > 1e-5
            np.testing.assert_array_equal((alone[0] > 0)[clear], (together[row] > 0)[clear])


def test_same_seed_gives_same_codes(name, pairs, fitted):
    again = quick(name).fit(pairs.take(slice(0, 600)))
    for modality in ("image", "text"):
        first, second = (
            getattr(h, f"encode_{modality}")(getattr(pairs, f"{modality}s"))
            for h in (fitted(name), again)
        )
        np.testing.assert_array_equal(first.packed, second.packed)


def test_inputs_are_not_modified(name, pairs):
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
    dense = hasher.embed_text(pairs.texts.toarray())
    np.testing.assert_allclose(dense, hasher.embed_text(pairs.texts), atol=1e-9)


def test_embeddings_of_texts_are_learned_from(name, pairs, tmp_path):
    """Vectors of a text encoder are dense, have negative entries and unit length."""
    rotation = np.random.default_rng(5).normal(size=(pairs.texts.shape[1], 48))
    texts = pairs.texts @ rotation
    texts = (texts / np.linalg.norm(texts, axis=1, keepdims=True).clip(1e-9)).astype(np.float32)
    hasher = quick(name).fit(replace(pairs, texts=texts).take(slice(0, 300)))
    codes = hasher.encode_text(texts[300:400])
    assert len(np.unique(codes.packed, axis=0)) > 1
    hasher.save(tmp_path)
    np.testing.assert_array_equal(
        Hasher.load(tmp_path).encode_text(texts[300:400]).packed, codes.packed
    )


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_])
def test_small_integer_texts_give_the_same_codes(name, pairs, fitted, dtype):
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
    for modality in ("image", "text"):
        values = getattr(pairs, f"{modality}s")
        first, second = (getattr(h, f"encode_{modality}")(values) for h in (hasher, again))
        np.testing.assert_array_equal(first.packed, second.packed)


def test_map_on_synthetic_pairs_is_above_chance(name, pairs, fitted):
    hasher = fitted(name)
    query, database = pairs.take(slice(600, 700)), pairs.take(slice(700, 900))
    chance = Similarity.from_labels(query.labels, database.labels).share_similar
    directions = [
        (hasher.encode_image(query.images), hasher.encode_text(database.texts)),
        (hasher.encode_text(query.texts), hasher.encode_image(database.images)),
    ]
    for queries, results in directions:
        assert evaluate(queries, results, query.labels, database.labels).map > chance + 0.03


def test_labels_are_required_or_ignored(name, pairs, fitted):
    method = METHODS[name]
    part = pairs.take(slice(0, 600))
    if method.needs_labels:
        with pytest.raises(InputError, match="needs labels, and these pairs have none"):
            quick(name).fit(part.without_labels())
        return
    shuffled = replace(part, labels=part.labels[np.random.default_rng(0).permutation(600)])
    for other in (shuffled, part.without_labels()):
        codes = quick(name).fit(other).encode_image(pairs.images)
        np.testing.assert_array_equal(codes.packed, fitted(name).encode_image(pairs.images).packed)


def test_pseudo_labels_replace_labels(name):
    if not METHODS[name].needs_labels:
        pytest.skip(f"{name} needs no labels")
    taught = supervise(load_dataset("synthetic", n=780), "pseudo-labels")
    hasher = quick(name).fit(taught.train, validation=taught.validation)
    assert hasher.encode_image(taught.train.images).n_distinct() > 1


def test_pairing_replaces_labels_or_is_refused(name):
    taught = supervise(load_dataset("synthetic", n=780), "pairs")
    if METHODS[name].needs_labels and not METHODS[name].learns_from_pairs:
        with pytest.raises(InputError, match=r"cannot learn from pairs.*labels or pseudo-labels"):
            quick(name).fit(taught.train, validation=taught.validation)
        return
    hasher = quick(name).fit(taught.train, validation=taught.validation)
    assert hasher.encode_image(taught.train.images).n_distinct() > 1


def test_texts_without_any_term_are_refused(name, pairs):
    empty = replace(pairs, texts=pairs.texts * 0)
    with pytest.raises(InputError, match="All 900 texts are empty: they contain no term"):
        quick(name).fit(empty)


def test_unaligned_pairs_are_refused_if_alignment_is_needed(name, pairs):
    if not METHODS[name].needs_alignment:
        pytest.skip(f"{name} learns from relevance judgments of unaligned images and texts")
    judgments = Similarity.from_judgments([(0, 1, 1), (2, 0, -1)], shape=(900, 900))
    unaligned = replace(pairs, labels=None, similarity=judgments)
    with pytest.raises(InputError, match="row i of images and texts must form a pair"):
        quick(name).fit(unaligned)


@pytest.mark.parametrize("n_bits", [0, 1025, 2.5])
def test_invalid_n_bits_is_refused(name, pairs, n_bits):
    with pytest.raises(InputError, match="n_bits must be"):
        quick(name, n_bits).fit(pairs)


def test_empty_dataset_is_refused(name, pairs):
    with pytest.raises(InputError, match="cannot learn from 0 pairs"):
        quick(name).fit(pairs.take(slice(0, 0)))


def test_wrong_number_of_columns_is_refused(name, pairs, fitted):
    with pytest.raises(InputError, match=r"trained on 256 columns of images.* 255"):
        fitted(name).encode_image(pairs.images[:, 1:])
    with pytest.raises(InputError, match=r"trained on 400 columns of texts.* 399"):
        fitted(name).encode_text(pairs.texts[:, 1:])


def test_grid_holds_valid_settings_within_the_budget(name):
    tried = configurations(METHODS[name].grid)
    assert 1 < len(tried) <= MAX_CONFIGURATIONS
    for params in tried:
        found = new_hasher(METHODS[name], N_BITS, params).get_params()
        assert {p: found[p.replace(".", "__")] for p in params} == params
