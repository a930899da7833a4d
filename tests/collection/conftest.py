"""Fixtures of collection tests: synthetic scenes, a URI of every engine, a filled collection."""

import pytest

from corrhash.collection import Collection
from corrhash.index import ENGINES
from tests.collection.world import World
from tests.engine_uris import new_uri


@pytest.fixture(scope="session")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("images"))


@pytest.fixture(params=list(ENGINES))
def uri(request, tmp_path):
    with new_uri(request.param, tmp_path) as uri:
        yield uri


@pytest.fixture
def filled(world, tmp_path):
    collection = Collection.create(tmp_path / "c", world.model)
    collection.add(world.records())
    return collection
