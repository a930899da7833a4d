"""Item: validation and conversion of its fields."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.index import Item

MISTAKES = {
    "key must be a string.* got 3": {"key": 3},
    "text must be a string without NUL characters": {"text": "a\0b"},
    "path must be a string.* lone surrogates": {"path": "photo\udce9.jpg"},
    "label must be a string.* got None": {"labels": ["a", None]},
    "labels must be a list of strings, got 3": {"labels": 3},
    "Invalid metadata field name 'labels'": {"metadata": {"labels": "x"}},
    "Invalid metadata field name 'Not'": {"metadata": {"Not": "x"}},
    "Invalid metadata field name 'my field'": {"metadata": {"my field": "x"}},
    "metadata\\['x'\\] must be .* number up to 2\\^53, got nan": {"metadata": {"x": float("nan")}},
    "number up to 2\\^53, got 9007199254740993": {"metadata": {"x": 2**53 + 1}},
    "number up to 2\\^53, got \\[1\\]": {"metadata": {"x": [1]}},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_invalid_field_is_refused(message):
    with pytest.raises(InputError, match=message):
        Item(**MISTAKES[message])


def test_numpy_values_become_python_values():
    item = Item("a", labels="dog", metadata={"x": np.float32(0.5), "y": np.int64(3)})
    assert item.labels == ("dog",)
    assert item.fields() == {
        **{"key": "a", "text": "", "path": "", "labels": ("dog",), "x": 0.5, "y": 3}
    }
    assert type(item.metadata["y"]) is int
    assert item.only(["labels"]) == Item(labels=("dog",))
