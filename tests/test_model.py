"""Model: saved as a whole, identified by a fingerprint, split as in training."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from corrhash import InputError
from corrhash._model_files import write_json
from corrhash.datasets import Reader, Vocabulary, load_dataset, make_pairs
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.vocabulary import Tokenizer
from corrhash.methods import METHODS
from corrhash.methods.cvh import CVH
from corrhash.methods.onnx_export import export_onnx
from corrhash.model import TRAINING_FORMAT, Model, TrainingRun, as_model, load_model
from corrhash.networks.config import Networks
from corrhash.training.config import Training


@pytest.fixture(scope="module")
def hasher():
    return METHODS["cvh"](n_bits=8).fit(make_pairs(200, seed=0))


def test_saving_keeps_the_fingerprint(hasher, tmp_path):
    model = Model(hasher, Reader(Vocabulary(("boat", "sea")), ImageFeatures("simple")))
    for name in ("a", "b", "a"):
        model.save(tmp_path / name)
        assert load_model(tmp_path / name).fingerprint == model.fingerprint
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_everything_codes_depend_on_changes_the_fingerprint(hasher):
    other = METHODS["cvh"](n_bits=8).fit(make_pairs(200, seed=1))
    terms, simple = Vocabulary(("boat", "sea")), ImageFeatures("simple")
    models = [
        Model(hasher),
        Model(other),
        Model(hasher, Reader(terms)),
        Model(hasher, Reader(Vocabulary(("sea", "boat")))),
        Model(hasher, Reader(terms, simple)),
    ]
    assert len({model.fingerprint for model in models}) == len(models)
    assert len(models[0].fingerprint) == 32


def test_reader_settings_change_the_fingerprint(hasher):
    terms = ("boat", "sea")
    forms = [Tokenizer(), Tokenizer("tags"), Tokenizer(stop_words=True), Tokenizer(stem="english")]
    weights = {"weights": "/here/w.pth", "sha256": "ab" * 32}
    readers = [
        *(Reader(Vocabulary(terms, form)) for form in forms),
        *(Reader(None, ImageFeatures(f"alexnet-{layer}", **weights)) for layer in ("fc6", "fc7")),
        Reader(None, ImageFeatures("hf:vit", sha256="ab" * 32)),
        Reader(None, ImageFeatures("f.npy", sha256="ab" * 32)),
    ]
    assert len({Model(hasher, reader).fingerprint for reader in readers}) == len(readers)


def test_parameters_used_at_search_time_change_the_fingerprint():
    hasher = METHODS["rahh"](n_bits=8, n_rounds=2).fit(make_pairs(120, seed=0))
    other = copy.copy(hasher)
    other.out_of_sample_neighbours = 2
    texts = make_pairs(40, seed=1).texts
    assert not np.array_equal(other.embed_text(texts), hasher.embed_text(texts))
    assert Model(other).fingerprint != Model(hasher).fingerprint


def test_exported_networks_keep_the_fingerprint(tmp_path):
    networks = Networks(width=8)
    hasher = METHODS["chn"](8, networks=networks, training=Training(epochs=1))
    model = Model(hasher.fit(make_pairs(60, seed=0)))
    fingerprint = model.fingerprint
    model.save(tmp_path / "m")
    assert load_model(tmp_path / "m").fingerprint == fingerprint
    export_onnx(tmp_path / "m")
    exported = load_model(tmp_path / "m")
    assert exported.fingerprint == fingerprint
    elsewhere = replace(networks, image_weights="/there/weights.pth")
    hasher.training, hasher.networks = Training(epochs=7, checkpoint="c"), elsewhere
    assert model.fingerprint == fingerprint


def test_file_locations_do_not_change_the_fingerprint(hasher):
    checksum = {"sha256": "ab" * 32}
    for features in (
        [ImageFeatures("alexnet-fc7", f"/{at}/w.pth", **checksum) for at in ("here", "there")],
        [ImageFeatures(f"hf:/{at}/vit", **checksum) for at in ("here", "there")],
        [ImageFeatures(f"/{at}/f.npy", **checksum) for at in ("here", "there")],
    ):
        here, there = (Model(hasher, Reader(None, each)).fingerprint for each in features)
        assert here == there


@pytest.fixture
def folder(tmp_path):
    split = load_dataset("synthetic", seed=3, n=780)
    training = TrainingRun("synthetic", 3, {"n": 780}, "labels", split.fingerprint)
    Model(CVH(8).fit(split.train), split.reader, training).save(tmp_path / "model")
    return tmp_path / "model"


def test_load_split_repeats_the_training_split(folder):
    model = load_model(folder)
    split = load_dataset("synthetic", seed=3, n=780)
    assert model.training == TrainingRun("synthetic", 3, {"n": 780}, "labels", split.fingerprint)
    again = model.load_split("synthetic")
    assert again.query.row_keys() == split.query.row_keys()
    np.testing.assert_array_equal(again.query.images, split.query.images)


def test_load_split_rejects_changed_data(folder):
    model = load_model(folder)
    changed = replace(model, training=replace(model.training, options={"n": 790}))
    with pytest.raises(InputError, match="is not the dataset the model was trained on"):
        changed.load_split("synthetic")


def test_save_replaces_an_old_model(folder):
    split = load_dataset("synthetic", n=780)
    Model(CVH(16).fit(split.train), split.reader, TrainingRun("synthetic")).save(folder)
    again = load_model(folder)
    assert (again.n_bits, again.training.seed, again.training.options) == (16, 0, {})
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_save_does_not_replace_other_files(folder, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    with pytest.raises(InputError, match="contains files that are not a model"):
        load_model(folder).save(tmp_path / "photos")
    assert (tmp_path / "photos" / "a.jpg").read_text() == "precious"


def test_model_without_a_training_run_has_no_split(folder):
    (folder / "training.json").unlink()
    model = load_model(folder)
    assert model.training is None
    with pytest.raises(InputError, match="has no training record"):
        model.load_split("synthetic")


def test_damaged_training_file_is_reported(folder):
    (folder / "training.json").write_text("{}")
    with pytest.raises(InputError, match=r"training\.json has format 'None'"):
        load_model(folder)
    write_json(folder, "training.json", TRAINING_FORMAT, {"seed": 1})
    with pytest.raises(InputError, match=r"training\.json lacks '"):
        load_model(folder)


def test_interrupted_save_names_the_old_model(folder):
    folder.rename(folder.with_name(".model.old"))
    with pytest.raises(InputError, match=r"The previous model is in .*\.model\.old: rename it"):
        load_model(folder)


def test_as_model_takes_a_model_or_its_folder(hasher, folder):
    model = Model(hasher)
    assert as_model(model) is model
    assert as_model(str(folder)).n_bits == 8
    with pytest.raises(InputError, match="must be a Model or the path .*, got CVH. Wrap"):
        as_model(hasher)


def test_models_that_can_encode_images():
    labels = np.eye(2, dtype=int)[np.arange(40) % 2]
    pixels = np.random.default_rng(0).integers(0, 255, (40, 32, 32, 3), dtype=np.uint8)
    settings = {"networks": Networks(width=8), "training": Training(epochs=1)}
    on_pixels = METHODS["chn"](8, **settings).fit(pixels, labels, labels)
    on_features = METHODS["chn"](8, **settings).fit(np.ones((40, 3)), labels, labels)
    assert Model(on_pixels).reads_images
    assert not Model(on_features).reads_images
    assert Model(on_features, Reader(None, ImageFeatures("simple"))).reads_images
    assert Model(on_features, Reader(None, ImageFeatures("hf:vit", sha256="ab" * 32))).reads_images
    assert not Model(on_features, Reader(None, ImageFeatures("f.npy"))).reads_images
    linear = CVH(2).fit(pixels[:, 0, 0].astype(float), labels)
    assert not Model(linear).reads_images
