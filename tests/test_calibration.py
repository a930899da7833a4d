"""Calibration: monotone tables fitted to held-out pairs, their error, and their file."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.isotonic import IsotonicRegression

from corrhash import InputError
from corrhash._model_files import write_json
from corrhash.calibration import (
    CALIBRATION_FILE,
    COSINE_GRID,
    DIRECTIONS,
    FORMAT,
    MEASURES,
    Calibration,
    _held_out,
    _measures,
    calibrate,
    expected_calibration_error,
    reliability,
)
from corrhash.codes import Codes, unit_rows
from corrhash.datasets import PairedDataset, make_pairs
from corrhash.datasets.base import is_empty_text
from corrhash.datasets.splits import draw_split
from corrhash.methods import METHODS
from corrhash.model import Model, load_model
from corrhash.similarity import share_label
from tests.collection.world import linear_calibration


@pytest.fixture(scope="module")
def split():
    sizes = {"n_query": 300, "n_validation": 300, "n_train": 1000}
    return draw_split(make_pairs(2500, seed=0), "synthetic", 0, **sizes)


@pytest.fixture(scope="module")
def hasher(split):
    return METHODS["cvh"](n_bits=16).fit(split.train)


@pytest.fixture(scope="module")
def calibration(hasher, split):
    return calibrate(hasher, split)


def distances(hasher, split, queries, items):
    texts, images = split.pairs.take(queries).texts, split.pairs.take(items).images
    return hasher.encode_text(texts).hamming(hasher.encode_image(images)).astype(int)


def relevance(split, queries, items):
    return share_label(split.pairs.labels[queries], split.pairs.labels[items])


def test_tables_equal_those_of_scikit_learn(hasher, split, calibration):
    rows, n = _held_out(split)
    queries = rows[:n][~is_empty_text(split.pairs.texts)[rows[:n]]]
    table = np.zeros((17, 3))  # weight, weight of relevant items, count
    found, relevant = distances(hasher, split, queries, rows), relevance(split, queries, rows)
    for row, query in enumerate(queries):
        for rank, item in enumerate(np.argsort(found[row], kind="stable"), start=1):
            if rows[item] != query:
                weight = 1 / rank
                table[found[row, item]] += weight, weight * relevant[row, item], 1
    seen = table[:, 2] > 0
    weight, of_relevant, count = table[seen].T
    base_rate = of_relevant.sum() / weight.sum()
    shares = (of_relevant / weight * count + 10 * base_rate) / (count + 10)
    fitted = IsotonicRegression(increasing=False).fit(np.flatnonzero(seen), shares, weight)
    expected = np.interp(np.arange(17), np.flatnonzero(seen), fitted.predict(np.flatnonzero(seen)))
    table = calibration.directions["text->image"].tables["query distance"]
    np.testing.assert_allclose(table, expected, atol=2e-5)


def test_tables_are_monotone_for_every_direction(calibration):
    assert {*calibration.directions} == {*DIRECTIONS}
    for direction in calibration.directions.values():
        assert direction.tables.keys() == {*MEASURES}
        assert direction.error < 0.1
        for measure, table in direction.tables.items():
            rising = table if measure.endswith("cosine") else table[::-1]
            assert (np.diff(rising) >= 0).all()
            assert rising[0] < direction.base_rate < rising[-1]


def test_probabilities_hold_on_queries(hasher, split, calibration):
    queries, items = split.query_rows, split.without_trained().database_rows
    queries = queries[~is_empty_text(split.pairs.texts)[queries]]
    found = distances(hasher, split, queries, items)
    nearest = np.argsort(found, axis=1, kind="stable")[:, :100]
    probabilities = calibration.probabilities("text->image", "query distance", found)
    relevant = relevance(split, queries, items)
    shown = [np.take_along_axis(array, nearest, 1) for array in (probabilities, relevant)]
    assert expected_calibration_error(*shown) < 0.05
    likely = probabilities >= 0.4
    assert relevant[likely].mean() > 0.4 > relevant[~likely].mean()


def test_held_out_rows_are_neither_trained_on_nor_queries(split):
    rows, n = _held_out(split)
    assert not np.isin(rows, split.train_rows).any()
    assert not np.isin(rows, split.query_rows).any()
    np.testing.assert_array_equal(np.sort(rows[:n]), np.sort(split.validation_rows))
    assert len(rows) == len({*rows.tolist()}) > n


def test_measures_are_rows_of_their_tables():
    rng = np.random.default_rng(0)
    query, items = rng.standard_normal((3, 12)), rng.standard_normal((5, 12))
    refined = Codes.from_continuous(-query)
    measures = _measures(SimpleNamespace(query_codes=lambda continuous: refined), query, items)
    codes = Codes.from_continuous(items)
    np.testing.assert_array_equal(measures["query distance"], refined.hamming(codes))
    np.testing.assert_array_equal(measures["distance"], Codes.from_continuous(query).hamming(codes))
    for name, others in (("cosine", items), ("query cosine", codes.signs())):
        exact = unit_rows(query) @ unit_rows(others).T
        np.testing.assert_allclose(COSINE_GRID[measures[name]], exact, atol=0.005001)


def test_cosines_are_interpolated():
    found = linear_calibration(8).probabilities("image->image", "query cosine", np.array([-1, 0.5]))
    np.testing.assert_allclose(found, [0, 0.75])


def test_data_without_labels_is_refused(hasher, split):
    unlabelled = replace(split, pairs=split.pairs.without_labels())
    with pytest.raises(InputError, match="because the dataset has no labels"):
        calibrate(hasher, unlabelled)


def test_too_few_validation_queries_are_refused(hasher, split):
    few = replace(split, validation_rows=split.validation_rows[:99])
    with pytest.raises(InputError, match=r"needs 100 labelled .* got 99 items"):
        calibrate(hasher, few)


def test_directions_of_empty_texts_are_missing(hasher, split):
    rows = np.concatenate([split.train_rows[:5], _held_out(split)[0]])
    texts = sp.lil_array(split.pairs.texts[rows])
    texts[50:] = 0
    pairs = split.pairs.take(rows)
    pairs = PairedDataset(pairs.images, texts.tocsr(), pairs.labels)
    few = replace(
        split,
        pairs=pairs,
        train_rows=np.arange(5),
        validation_rows=np.arange(5, 305),
        database_rows=np.arange(len(pairs)),
    )
    found = calibrate(hasher, few).directions
    assert "image->image" in found
    assert not {"text->image", "text->text"} & {*found}


def test_reliability_of_a_hand_worked_case():
    probabilities = np.array([0.05, 0.15, 0.15, 0.95, 1.0])
    relevant = np.array([0, 0, 1, 1, 1])
    table = reliability(probabilities, relevant)
    np.testing.assert_allclose(table[[0, 1, 9]], [[1, 0.05, 0], [2, 0.15, 0.5], [2, 0.975, 1]])
    expected = (1 * 0.05 + 2 * 0.35 + 2 * 0.025) / 5
    assert expected_calibration_error(probabilities, relevant) == pytest.approx(expected)


def test_a_model_keeps_its_calibration_and_fingerprint(hasher, calibration, tmp_path):
    model = Model(hasher, calibration=calibration)
    assert model.fingerprint == Model(hasher).fingerprint
    model.save(tmp_path / "m")
    loaded = load_model(tmp_path / "m").calibration
    assert loaded.relevance == "labels"
    for name, direction in calibration.directions.items():
        of_loaded = loaded.directions[name]
        assert replace(of_loaded, tables={}) != direction
        assert (of_loaded.error, of_loaded.n_relevant) == (direction.error, direction.n_relevant)
        for measure, table in direction.tables.items():
            np.testing.assert_array_equal(of_loaded.tables[measure], table)
    Model(hasher).save(tmp_path / "m")
    assert load_model(tmp_path / "m").calibration is None


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ("distance", [0.5] * 8),
        ("distance", [0.1, *[0.5] * 8]),
        ("distance", [*[0.5] * 8, float("nan")]),
        ("query distance", [1.5] * 9),
        ("cosine", [0.5] * 9),
        ("cosine", ["a"] * 201),
    ],
)
def test_invalid_tables_are_refused(table, value, tmp_path):
    linear_calibration(8).save(tmp_path)
    one = linear_calibration(8).directions["text->image"]
    tables = {name: values.tolist() for name, values in one.tables.items()} | {table: value}
    counts = {"n_queries": 100, "n_relevant": 200, "base_rate": 0.5, "error": 0.0}
    content = {"text->image": {**counts, "tables": tables}}
    write_json(tmp_path, CALIBRATION_FILE, FORMAT, {"relevance": "labels", "directions": content})
    with pytest.raises(InputError, match="monotone probabilities"):
        Calibration.load(tmp_path, 8)


def test_unknown_directions_and_edited_files_are_refused(tmp_path):
    content = {"relevance": "labels", "directions": {"sound->image": {}}}
    write_json(tmp_path, CALIBRATION_FILE, FORMAT, content)
    with pytest.raises(InputError, match=r"unknown key 'sound->image'"):
        Calibration.load(tmp_path, 8)
    path = tmp_path / CALIBRATION_FILE
    path.write_text(path.read_text().replace("sound", "image"))
    with pytest.raises(InputError, match="its checksum differs"):
        Calibration.load(tmp_path, 8)
