"""Hasher: saving and loading models, custom methods, and validation of input."""

import json

import numpy as np
import pytest

from corrhash import InputError
from corrhash._model_files import write_json
from corrhash.datasets import PairedDataset, load_dataset, make_pairs
from corrhash.methods import Hasher
from corrhash.methods._validation import check_choice, check_count, check_number
from corrhash.methods.base import FORMAT
from corrhash.methods.cvh import CVH


class Thresholds(Hasher):
    """A custom method that compares the first columns with their training means."""

    needs_labels = False

    def __init__(self, n_bits=4):
        self.n_bits = n_bits

    def _fit(self, pairs, validation):
        self.means_ = np.stack([pairs.images.mean(0)[: self.n_bits]] * 2)

    def _embed_image(self, images):
        return images[:, : self.n_bits] - self.means_[0]

    def _embed_text(self, texts):
        return texts[:, : self.n_bits] - self.means_[1]


@pytest.fixture
def pairs():
    return make_pairs(200)


@pytest.fixture
def folder(pairs, tmp_path):
    CVH(8).fit(pairs).save(tmp_path / "model")
    return tmp_path / "model"


def test_custom_method_works_without_registration(pairs, tmp_path):
    hasher = Thresholds().fit(pairs)
    hasher.save(tmp_path)
    again = Thresholds.load(tmp_path)
    codes = again.encode_image(pairs.images)
    np.testing.assert_array_equal(codes.packed, hasher.encode_image(pairs.images).packed)
    with pytest.raises(InputError, match=r"Thresholds, which Hasher.load cannot load"):
        Hasher.load(tmp_path)
    CVH(8).fit(pairs).save(tmp_path / "cvh")
    with pytest.raises(InputError, match=r"CVH, which Thresholds.load cannot load"):
        Thresholds.load(tmp_path / "cvh")


def test_continuous_codes_of_another_shape_are_refused(pairs):
    class Narrow(Thresholds):
        def _embed_image(self, images):
            return images[:, :3]

    hasher = Narrow().fit(pairs)
    with pytest.raises(TypeError, match=r"Narrow returned .* shape \(200, 3\).* 4"):
        hasher.embed_image(pairs.images)


def test_parameters_can_be_numpy_numbers(pairs, tmp_path):
    CVH(np.int64(8), ridge=np.float32(0.5)).fit(pairs).save(tmp_path)
    assert Hasher.load(tmp_path).get_params() == {"n_bits": 8, "ridge": 0.5}


def test_unsavable_attribute_is_refused_before_writing(pairs, tmp_path):
    hasher = Thresholds().fit(pairs)
    hasher.threshold_ = 0.5
    with pytest.raises(TypeError, match=r"Thresholds.threshold_ is a float.*np.array"):
        hasher.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_saving_onto_a_file_is_refused(pairs, tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(InputError, match=r"Cannot make the folder .*model"):
        CVH(8).fit(pairs).save(tmp_path / "model")


def test_repr_shows_the_parameters():
    assert repr(CVH(8, ridge=0.5)) == "CVH(n_bits=8, ridge=0.5)"


def test_saving_again_replaces_the_model(pairs, folder):
    CVH(16).fit(pairs).save(folder)
    assert Hasher.load(folder).n_bits == 16
    assert len(list(folder.iterdir())) == 2


def test_interrupted_save_keeps_the_old_model(pairs, folder, monkeypatch):
    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", interrupted)  # after the arrays, before hasher.json
    with pytest.raises(KeyboardInterrupt):
        CVH(16).fit(pairs).save(folder)
    monkeypatch.undo()
    assert Hasher.load(folder).encode_image(pairs.images).n_bits == 8


def test_damaged_and_foreign_model_folders_are_refused(folder, tmp_path):
    arrays = next(folder.glob("arrays-*.safetensors"))
    whole = arrays.read_bytes()
    for damaged in (whole[: len(whole) // 2], whole[:-9] + bytes(9), b""):
        arrays.write_bytes(damaged)
        with pytest.raises(InputError, match=r"safetensors is damaged: its checksum differs"):
            Hasher.load(folder)
    arrays.unlink()
    with pytest.raises(InputError, match=r"model file .*safetensors is missing"):
        Hasher.load(folder)
    (folder / "hasher.json").write_text('{"format": ')
    with pytest.raises(InputError, match=r"hasher.json is damaged"):
        Hasher.load(folder)
    (folder / "hasher.json").write_text('{"format": "another"}')
    with pytest.raises(InputError, match=r"has format 'another'"):
        Hasher.load(folder)
    write_json(folder, "hasher.json", FORMAT, {"method": "x", "params": {}, "learned": {}})
    with pytest.raises(InputError, match=r"hasher.json lacks 'arrays'"):
        Hasher.load(folder)
    with pytest.raises(InputError, match=r"No model in .*hasher.json not found"):
        Hasher.load(tmp_path)
    with pytest.raises(InputError, match=r"hasher.json is a file, not a model folder"):
        Hasher.load(folder / "hasher.json")


def test_single_items_and_strings_are_refused(pairs):
    hasher = CVH(8).fit(pairs)
    with pytest.raises(InputError, match=r"got shape \(256,\). Pass one item as a row"):
        hasher.encode_image(pairs.images[0])
    for words in ("a dog", np.array(["a dog"]), ["a dog"]):
        with pytest.raises(InputError, match="got strings. Read them with the reader"):
            hasher.encode_text(words)
    codes = hasher.encode_image(pairs.images[:2].tolist())
    np.testing.assert_array_equal(codes.packed, hasher.encode_image(pairs.images[:2]).packed)


def test_fit_refuses_what_is_not_pairs(pairs):
    for wrong in (load_dataset("synthetic", n=780), pairs.images, "synthetic", None):
        with pytest.raises(InputError, match=r"fit (needs|got) .*split.train"):
            CVH(8).fit(wrong)
    with pytest.raises(InputError, match=r"fit\(train, validation=...\)"):
        CVH(8).fit(pairs, pairs)


def test_linear_methods_refuse_strings_and_images(pairs):
    strings = PairedDataset(pairs.images, ["a boat"] * 200)
    with pytest.raises(InputError, match=r"reads texts as \(n, d\) arrays of numbers, got strings"):
        CVH(8).fit(strings)
    images = PairedDataset(np.zeros((200, 8, 8, 3), np.uint8), pairs.texts)
    with pytest.raises(InputError, match=r"got 200 images.*image_features='simple'"):
        CVH(8).fit(images)


@pytest.mark.parametrize("value", [0.5, 3, np.float32(2), np.int64(1)])
def test_positive_numbers_are_accepted(value):
    check_number("ridge", value, zero=False)


@pytest.mark.parametrize("value", [-1, np.inf, np.nan, "0.1", None, True])
def test_invalid_numbers_are_refused(value):
    with pytest.raises(InputError, match="weight must be a number >= 0, got"):
        check_number("weight", value, zero=True)


def test_zero_is_accepted_only_where_allowed():
    check_number("weight", 0, zero=True)
    with pytest.raises(InputError, match="ridge must be a number > 0, got 0"):
        check_number("ridge", 0, zero=False)


@pytest.mark.parametrize("value", [0, 2.0, "3", True, None])
def test_invalid_counts_are_refused(value):
    check_count("n_rounds", 1)
    check_count("seed", np.int64(0), least=0)
    with pytest.raises(InputError, match="n_rounds must be an integer >= 1, got"):
        check_count("n_rounds", value)


def test_unknown_choice_is_refused():
    check_choice("rule", "ridge", ("ridge", "neighbours"))
    with pytest.raises(InputError, match="rule must be 'ridge' or 'neighbours', got 'poll'"):
        check_choice("rule", "poll", ("ridge", "neighbours"))
