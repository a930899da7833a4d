"""Settings: words of a command line become parameters, or a sentence that tells why not."""

import pytest

from corrhash import InputError
from corrhash.experiments.settings import method_class, new_hasher, parse_params
from corrhash.methods.chn import CHN


def test_values_are_numbers_where_they_look_like_numbers():
    texts = ["eps=0.1", "epochs=3", "name=small", "on=true", "weights=a=b"]
    assert parse_params(texts) == {
        "eps": 0.1,
        "epochs": 3,
        "name": "small",
        "on": True,
        "weights": "a=b",
    }


def test_fields_of_a_parameter_are_set_by_a_dot():
    hasher = new_hasher(CHN, 16, {"training.epochs": 3, "networks.image": "alexnet", "lambda_": 0})
    assert (hasher.training.epochs, hasher.networks.image, hasher.lambda_) == (3, "alexnet", 0)
    assert hasher.networks.width == CHN().networks.width


def test_a_setting_that_makes_no_sense_is_told():
    with pytest.raises(InputError, match="epochs must be at least 1. Got 0"):
        new_hasher(CHN, 16, {"training.epochs": 0})
    with pytest.raises(InputError, match=r"has no parameter 'epochs'.*training.epochs"):
        new_hasher(CHN, 16, {"epochs": 3})


def test_what_another_option_decides_is_not_set_twice():
    with pytest.raises(InputError, match=r"training.seed has an option of its own: use --seed"):
        new_hasher(CHN, 16, {"training.seed": 3})


def test_a_method_is_a_name_or_a_place():
    assert method_class("chn") is method_class("corrhash.methods.chn:CHN") is CHN
