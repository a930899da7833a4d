"""CodeIndex: filters that name fields which no item has."""

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, open_index


@pytest.fixture(params=["memory:", "a folder"])
def uri(request, tmp_path):
    """A URI of each engine that can list the fields of its items."""
    return request.param if request.param == "memory:" else str(tmp_path / "index")


def test_unknown_field_of_a_filter_is_refused(uri):
    index = open_index(uri, 16)
    codes = Codes.from_signs(np.ones((3, 16)))
    assert index.search(codes, where="year = 1").k == 0  # an empty index has no fields yet
    metadata = [{"year": 1}, {"year": 2, "place": "Paris"}, {}]
    index.add([0, 1, 2], codes, [Item(str(i), metadata=of) for i, of in enumerate(metadata)])
    for where in ("yearr = 1", "not yearr = 1", "year = 1 or (yearr = 1 and 'x' in labels)"):
        for use in (index.select, lambda where: index.search(codes, where=where)):
            with pytest.raises(
                InputError,
                match=r"^Unknown field 'yearr'. Did you mean 'year'\? "
                r"Valid fields: key, text, path, labels, place, year\.$",
            ):
                use(where)
    assert index.select("place = 'Rome' or 'x' in labels or text = 'y'").tolist() == []
    index.delete([1])
    with pytest.raises(InputError, match="Unknown field 'place'"):
        index.select("place = 'Paris'")
    index.upsert([0], codes[:1], [Item("0", metadata={"place": "Rome"})])
    assert index.select("place = 'Rome'").tolist() == [0]
    with pytest.raises(InputError, match="Unknown field 'year'"):
        index.select("year = 1")


def test_long_lists_of_fields_are_cut(uri):
    index = open_index(uri, 16)
    metadata = {f"field_{i:02}": i for i in range(30)}
    index.add([0], Codes.from_signs(np.ones((1, 16))), [Item("a", metadata=metadata)])
    with pytest.raises(InputError, match=r"Valid fields: key, .*, field_15 and 14 more\.$"):
        index.select("colour = 'red'")
