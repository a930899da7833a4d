"""Item: what may be kept of an item."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.index import Item

MISTAKES = {
    "key of an item is a text.*Got 3": {"key": 3},
    "text of an item is a text without zero characters": {"text": "a\0b"},
    "path of an item is a text.*halves of characters": {"path": "photo\udce9.jpg"},
    "A label of an item": {"labels": ["a", None]},
    "named with letters a to z.*Got 'labels'": {"metadata": {"labels": "x"}},
    "named with letters a to z.*Got 'Not'": {"metadata": {"Not": "x"}},
    "named with letters a to z.*Got 'my field'": {"metadata": {"my field": "x"}},
    "numbers up to 2\\^53. Got nan for 'x'": {"metadata": {"x": float("nan")}},
    "numbers up to 2\\^53. Got 9007199254740993 for 'x'": {"metadata": {"x": 2**53 + 1}},
    "numbers up to 2\\^53. Got \\[1\\] for 'x'": {"metadata": {"x": [1]}},
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_told(message):
    with pytest.raises(InputError, match=message):
        Item(**MISTAKES[message])


def test_values_become_plain():
    item = Item("a", labels="dog", metadata={"x": np.float32(0.5), "y": np.int64(3)})
    assert item.labels == ("dog",)
    assert item.fields() == {
        **{"key": "a", "text": "", "path": "", "labels": ("dog",), "x": 0.5, "y": 3}
    }
    assert type(item.metadata["y"]) is int
    assert item.only(["labels"]) == Item(labels=("dog",))
