"""Errors about parameters, invalid values and missing optional packages."""

import pickle
import sys
import tomllib
from pathlib import Path

import pytest

from corrhash import InputError
from corrhash.datasets import make_pairs
from corrhash.errors import EXTRAS, ParameterError, optional_packages, validation_problem
from corrhash.methods import METHODS

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


@pytest.fixture
def no_torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "corrhash.networks.hashing_network", raising=False)


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize("name", ["chn", "chn-plus", "mmnn", "dcmh"])
def test_missing_package_names_the_extra(name):
    pairs = make_pairs(50)
    title = METHODS[name].__name__
    problem = rf"Training {title} needs PyTorch.*'corrhash\[train\]'$"
    with pytest.raises(InputError, match=problem) as raised:
        METHODS[name](8).fit(pairs)
    assert isinstance(raised.value, ImportError)


def test_other_import_errors_stay_as_they_are():
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), optional_packages("It"):
        import no_such_package  # noqa: F401


def test_every_named_extra_exists():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {extra for _, extra in EXTRAS.values()} <= set(extras)


def test_parameter_errors_survive_pickling():
    error = pickle.loads(pickle.dumps(ParameterError("n_bits", "must be 1, got 2.")))
    assert isinstance(error, InputError)
    assert (error.name, error.problem) == ("n_bits", "must be 1, got 2.")
    assert str(error) == "n_bits must be 1, got 2."


@pytest.mark.parametrize(
    ("error", "problem"),
    [
        ({"type": "int_parsing", "input": "x"}, "must be an integer, got 'x'"),
        (
            {"type": "less_than_equal", "ctx": {"le": 9}, "input": "10"},
            "must be at most 9, got 10",
        ),
        ({"type": "string_type", "input": {"a": 1}}, "must be a string"),
        (
            {"type": "string_too_long", "ctx": {"max_length": 9}, "input": "x" * 99},
            "must have at most 9 characters",
        ),
        ({"type": "other", "msg": "Input is odd", "input": 1}, "is invalid: Input is odd"),
    ],
)
def test_validation_problems_are_short_sentences(error, problem):
    assert validation_problem(error) == problem
