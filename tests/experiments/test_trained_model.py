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
    model = TrainedModel(CVH(8).fit(split.train), split.reader, "synthetic", seed=3)
    model.save(tmp_path / "model")
    return tmp_path / "model"


def test_a_model_is_measured_on_the_queries_that_its_training_held_out(folder):
    model = TrainedModel.load(folder)
    assert (model.dataset, model.seed) == ("synthetic", 3)
    again = model.load_split("synthetic")
    split = load_dataset("synthetic", seed=3)
    np.testing.assert_array_equal(again.query.images, split.query.images)


def test_a_folder_without_its_training_is_refused(folder):
    (folder / "training.json").write_text("{}")
    with pytest.raises(InputError, match=r"Cannot read .*training.json"):
        TrainedModel.load(folder)
