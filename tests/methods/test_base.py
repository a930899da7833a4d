"""Hasher: model folders, whole or refused, and methods of one's own."""

import json

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import PairedDataset, load_dataset, make_pairs
from corrhash.methods import Hasher
from corrhash.methods.cvh import CVH


class Thresholds(Hasher):
    """A method of one's own: compares the first columns with their training means."""

    needs_labels = False

    def __init__(self, n_bits=4):
        self.n_bits = n_bits

    def _fit(self, pairs, validation):
        self.means_ = np.stack([pairs.images.mean(0)[: self.n_bits]] * 2)

    def _score_image(self, images):
        return images[:, : self.n_bits] - self.means_[0]

    def _score_text(self, texts):
        return texts[:, : self.n_bits] - self.means_[1]


@pytest.fixture
def pairs():
    return make_pairs(200)


@pytest.fixture
def folder(pairs, tmp_path):
    CVH(8).fit(pairs).save(tmp_path / "model")
    return tmp_path / "model"


def test_a_method_of_ones_own_works_without_registration(pairs, tmp_path):
    hasher = Thresholds().fit(pairs)
    hasher.save(tmp_path)
    again = Thresholds.load(tmp_path)
    codes = again.encode_image(pairs.images)
    np.testing.assert_array_equal(codes.packed, hasher.encode_image(pairs.images).packed)
    with pytest.raises(InputError, match=r"Thresholds, which Hasher.load does not know"):
        Hasher.load(tmp_path)
    CVH(8).fit(pairs).save(tmp_path / "cvh")
    with pytest.raises(InputError, match=r"CVH, which Thresholds.load does not know"):
        Thresholds.load(tmp_path / "cvh")


def test_parameters_may_be_numbers_of_numpy(pairs, tmp_path):
    CVH(np.int64(8), eps=np.float32(0.5)).fit(pairs).save(tmp_path)
    assert Hasher.load(tmp_path).get_params() == {"n_bits": 8, "eps": 0.5}


def test_what_cannot_be_saved_is_told_before_anything_is_written(pairs, tmp_path):
    hasher = Thresholds().fit(pairs)
    hasher.threshold_ = 0.5
    with pytest.raises(TypeError, match=r"Thresholds.threshold_ is a float.*np.array"):
        hasher.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_a_file_in_the_place_of_the_folder_is_told(pairs, tmp_path):
    (tmp_path / "model").write_text("a file")
    with pytest.raises(InputError, match=r"Cannot make the folder .*model"):
        CVH(8).fit(pairs).save(tmp_path / "model")


def test_a_hasher_shows_its_parameters():
    assert repr(CVH(8, eps=0.5)) == "CVH(n_bits=8, eps=0.5)"


def test_saving_again_leaves_one_model(pairs, folder):
    CVH(16).fit(pairs).save(folder)
    assert Hasher.load(folder).n_bits == 16
    assert len(list(folder.iterdir())) == 2


def test_a_save_that_is_interrupted_leaves_the_old_model(pairs, folder, monkeypatch):
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
    with pytest.raises(InputError, match=r"lacks its file .*safetensors"):
        Hasher.load(folder)
    (folder / "hasher.json").write_text('{"format": ')
    with pytest.raises(InputError, match=r"hasher.json is damaged"):
        Hasher.load(folder)
    (folder / "hasher.json").write_text('{"format": "another"}')
    with pytest.raises(InputError, match=r"says format 'another'"):
        Hasher.load(folder)
    (folder / "hasher.json").write_text('{"format": "corrhash hasher 1", "method": "x"}')
    with pytest.raises(InputError, match=r"is damaged \(arrays is missing\)"):
        Hasher.load(folder)
    with pytest.raises(InputError, match=r"no model in .*hasher.json is missing"):
        Hasher.load(tmp_path)
    with pytest.raises(InputError, match=r"hasher.json is a file. A model is a folder"):
        Hasher.load(folder / "hasher.json")


def test_a_single_item_and_single_words_are_told_what_they_lack(pairs):
    hasher = CVH(8).fit(pairs)
    with pytest.raises(InputError, match=r"Got shape \(256,\). One item is still a row"):
        hasher.encode_image(pairs.images[0])
    for words in ("a dog", np.array(["a dog"]), ["a dog"]):
        with pytest.raises(InputError, match="Got strings. Read them with the reader"):
            hasher.encode_text(words)
    codes = hasher.encode_image(pairs.images[:2].tolist())
    np.testing.assert_array_equal(codes.packed, hasher.encode_image(pairs.images[:2]).packed)


def test_what_is_not_a_dataset_is_refused_with_the_way_out(pairs):
    for wrong in (load_dataset("synthetic", n=780), pairs.images, "synthetic", None):
        with pytest.raises(InputError, match=r"learns from a PairedDataset. Got .*split.train"):
            CVH(8).fit(wrong)


def test_strings_and_pictures_are_refused_with_the_way_out(pairs):
    strings = PairedDataset(pairs.images, ["a boat"] * 200)
    with pytest.raises(InputError, match=r"reads texts as \(n, d\) arrays of numbers. Got strings"):
        CVH(8).fit(strings)
    pictures = PairedDataset(np.zeros((200, 8, 8, 3), np.uint8), pairs.texts)
    with pytest.raises(InputError, match=r"Got 200 pictures.*image_features='simple'"):
        CVH(8).fit(pictures)
