"""TrainedModel: what a folder keeps of a training."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.experiments.trained_model import TrainedModel
from corrhash.methods.cvh import CVH


@pytest.fixture
def folder(tmp_path):
    split = load_dataset("synthetic", seed=3, n=780)
    hasher = CVH(8).fit(split.train)
    options = {"n": 780}
    model = TrainedModel(hasher, split.reader, "synthetic", 3, options, supervision="words")
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_is_measured_on_the_queries_that_its_training_held_out(folder):
    model = TrainedModel.load(folder)
    assert (model.dataset, model.seed, model.supervision) == ("synthetic", 3, "words")
    again = model.load_split("synthetic")
    split = load_dataset("synthetic", seed=3, n=780)
    assert again.query.row_keys() == split.query.row_keys()
    np.testing.assert_array_equal(again.query.images, split.query.images)


def test_a_new_model_takes_the_place_of_an_old_one_wholly(folder):
    split = load_dataset("synthetic", n=780)
    TrainedModel(CVH(16).fit(split.train), split.reader, "synthetic", seed=0).save(folder)
    again = TrainedModel.load(folder)
    assert (again.hasher.n_bits, again.seed, again.options) == (16, 0, {})
    assert [path.name for path in folder.parent.iterdir()] == ["model"]


def test_other_files_are_not_replaced_by_a_model(folder, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.jpg").write_text("precious")
    with pytest.raises(InputError, match="holds files that are not a model"):
        TrainedModel.load(folder).save(tmp_path / "photos")
    assert (tmp_path / "photos" / "a.jpg").read_text() == "precious"


def test_a_folder_without_its_training_is_refused(folder):
    (folder / "training.json").write_text("{}")
    with pytest.raises(InputError, match=r"Cannot read .*training.json"):
        TrainedModel.load(folder)
    (folder / "training.json").unlink()
    with pytest.raises(InputError, match=r"There is no .*training.json. Give a folder that"):
        TrainedModel.load(folder)


def test_a_training_that_was_cut_off_while_it_was_saved_tells_where_the_old_model_is(folder):
    folder.rename(folder.with_name(".model.old"))
    with pytest.raises(InputError, match=r"The one before is in .*\.model\.old: rename that"):
        TrainedModel.load(folder)
