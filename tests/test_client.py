"""Client: the calls of a collection, over the network."""

import pytest

from corrhash.client import Client
from corrhash.errors import InputError
from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from tests.service.conftest import TOKEN, N, fill
from tests.service.running import running


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    collection, scenes = fill(tmp_path_factory.mktemp("client") / "photos")
    limits = Limits(rate=1e6, burst=10**6)
    with running(create_app(collection, limits, token=TOKEN)) as address:
        yield Client(address, TOKEN), collection, scenes


def short(matches):
    return [(match.id, match.key, match.distance, match.score) for match in matches]


@pytest.mark.parametrize("find", ["image", "text"])
def test_searches_answer_as_the_collection_does(both, find):
    client, collection, scenes = both
    how = {"where": "row < 40", "offset": 2}
    words, picture = "sea boat", scenes.images[5]
    for name, query in (("text", words), ("image", picture), ("item", "scene 9")):
        mine = getattr(client, f"search_{name}")(query, 6, find, **how)
        theirs = getattr(collection, f"search_{name}")(query, 6, find, **how)
        assert short(mine) == short(theirs)
        assert mine[0].item.labels == theirs[0].item.labels


def test_items_are_added_and_deleted(both):
    client, collection, scenes = both
    added = client.add([{"key": "new", "image": scenes.images[0], "metadata": {"year": 2015}}])
    assert (added.new, len(client)) == (1, N + 1)
    assert client.get("new").metadata == {"year": 2015}
    assert client.search_image(scenes.images[0], 2, "image")[0].distance == 0
    assert client.delete("new") == 1
    assert len(collection) == N


def test_mistakes_are_the_sentences_of_the_service(both):
    client, _, _ = both
    with pytest.raises(InputError, match="knows no word of 'xyzzy'"):
        client.search_text("xyzzy")
    with pytest.raises(InputError, match="no item 'nobody'"):
        client.get("nobody")
    with pytest.raises(InputError, match="needs the token"):
        Client(client.address, "another token here").delete("scene 1")


def test_where_there_is_no_service_the_way_out_is_named():
    with pytest.raises(InputError, match="corrhash serve"):
        Client("http://127.0.0.1:9").info()
