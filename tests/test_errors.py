"""Errors about missing optional packages."""

import sys
import tomllib
from pathlib import Path

import pytest

import corrhash
from corrhash import InputError
from corrhash.errors import EXTRAS, optional_packages
from corrhash.methods import METHODS

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


@pytest.fixture
def no_torch(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("corrhash.methods.chn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(vars(corrhash), "CHN", raising=False)
    for name in ("training.batches", "training.trainer", "methods.network_hasher", "losses"):
        monkeypatch.delitem(sys.modules, f"corrhash.{name}", raising=False)


@pytest.mark.usefixtures("no_torch")
def test_missing_package_names_the_extra():
    with pytest.raises(InputError, match=r"The method 'chn' needs PyTorch.*'corrhash\[train\]'"):
        METHODS["chn"]
    with pytest.raises(ImportError, match=r"needs PyTorch.*'corrhash\[train\]'"):
        _ = corrhash.CHN


def test_other_import_errors_stay_as_they_are():
    with pytest.raises(ModuleNotFoundError, match="no_such_package"), optional_packages("It"):
        import no_such_package  # noqa: F401


def test_every_named_extra_exists():
    extras = tomllib.loads(PYPROJECT.read_text())["project"]["optional-dependencies"]
    assert {extra for _, extra in EXTRAS.values()} <= set(extras)
