"""LazyTable: names first, imports only when asked."""

import sys

import pytest

from corrhash import InputError
from corrhash.lazy_table import LazyTable, load_attribute


def test_listing_the_names_imports_nothing():
    sys.modules.pop("colorsys", None)
    table = LazyTable("colour space", {"hsv": "colorsys:rgb_to_hsv"})
    assert list(table) == ["hsv"]
    assert "hsv" in table
    assert len(table) == 1
    assert "colorsys" not in sys.modules
    assert table["hsv"](0, 0, 0) == (0, 0, 0)
    assert "colorsys" in sys.modules


@pytest.mark.parametrize("place", ["nowhere.at.all:Thing", "math:nothing", "math", ":x"])
def test_a_place_that_cannot_be_loaded_is_named(place):
    with pytest.raises(InputError, match=f"Cannot load '{place}'.*package.module:Name"):
        load_attribute(place)
