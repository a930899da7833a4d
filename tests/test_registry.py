"""Registry: names are listed without imports, values are imported on use."""

import sys

import pytest

from corrhash import InputError
from corrhash._registry import Registry, load_attribute


def test_listing_names_imports_nothing():
    sys.modules.pop("colorsys", None)
    table = Registry("colour space", {"hsv": "colorsys:rgb_to_hsv"})
    assert list(table) == ["hsv"]
    assert "hsv" in table
    assert len(table) == 1
    assert "colorsys" not in sys.modules
    assert table["hsv"](0, 0, 0) == (0, 0, 0)
    assert "colorsys" in sys.modules


@pytest.mark.parametrize("import_path", ["nowhere.at.all:Thing", "math:nothing", "math", ":x"])
def test_an_invalid_import_path_raises(import_path):
    with pytest.raises(InputError, match=f"Cannot load '{import_path}'.*package.module:Name"):
        load_attribute(import_path)
