"""The search call that collections and clients share: its queries, options and defaults."""

import inspect
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from pydantic.fields import FieldInfo

from corrhash import Client, Codes, Collection, InputError
from corrhash.cli import collections as cli
from corrhash.collection import SearchableCollection, SearchOptions
from corrhash.collection.base import Query
from corrhash.service.schemas import SearchParameters

PIXELS = np.zeros((4, 4, 3), np.uint8)


def of(text=None, image=None, key=None, codes=None):
    query = Query.of(text, image, key, codes)
    return query.kind, len(query.values), query.single


def test_single_values_and_lists_are_told_apart():
    assert of("boat") == ("text", 1, True)
    assert of(["boat", "sea"]) == ("text", 2, False)
    assert of(np.ones(7)) == ("text", 1, True)
    assert of(np.ones((2, 7))) == ("text", 2, False)
    assert of(key="a") == ("key", 1, True)
    assert of(key=("a", "b")) == ("key", 2, False)
    for one in ("a.jpg", Path("a.jpg"), b"jpeg", Image.fromarray(PIXELS), PIXELS, np.ones(7)):
        assert of(image=one) == ("image", 1, True)
    for many in ([PIXELS, "a.jpg"], np.stack([PIXELS, PIXELS]), np.ones((2, 7))):
        assert of(image=many) == ("image", 2, False)
    assert of(codes=Codes.from_continuous(np.ones((2, 8)))) == ("codes", 2, False)


@pytest.mark.parametrize("given", [{}, {"text": "boat", "key": "a"}])
def test_exactly_one_query_is_required(given):
    with pytest.raises(InputError, match="Pass exactly one of text, image, key and codes, got"):
        of(**given)


@pytest.mark.parametrize(("name", "value"), [("text", 3), ("text", ["a", 3]), ("key", [3])])
def test_queries_have_the_right_type(name, value):
    with pytest.raises(InputError, match=f"{name} must be a string or a list of strings, got 3"):
        of(**{name: value})


@pytest.mark.parametrize("offset", [-1, 0.5, "3"])
def test_offset_is_checked(offset):
    with pytest.raises(InputError, match=f"offset must be a non-negative integer, got {offset!r}"):
        SearchOptions(offset=offset)


def test_defaults_are_the_same_everywhere():
    defaults = vars(SearchOptions())
    method = inspect.signature(SearchableCollection.search).parameters
    assert {name: method[name].default for name in defaults} == defaults
    command = inspect.signature(cli.search).parameters
    shared = set(defaults) & set(command)
    assert shared == set(defaults) - {"thumbnails"}
    assert {name: command[name].default for name in shared} == {n: defaults[n] for n in shared}
    fields: dict[str, FieldInfo] = SearchParameters.model_fields
    assert {name: field.default for name, field in fields.items()} == {
        n: defaults[n] for n in shared
    }
    assert SearchParameters().options() == SearchOptions()


@pytest.mark.parametrize("method", ["search", "add", "delete", "get", "info", "__len__"])
def test_client_and_collection_have_the_same_methods(method):
    def parameters(owner):
        found = inspect.signature(getattr(owner, method)).parameters.values()
        return [(one.name, one.kind) for one in found]

    assert parameters(Client) == parameters(Collection) == parameters(SearchableCollection)
