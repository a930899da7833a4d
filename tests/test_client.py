"""Client: the calls of a collection, over the network."""

import numpy as np
import pytest
from PIL import Image

from corrhash.client import Client, _picture_file
from corrhash.errors import InputError
from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from corrhash.service.uploads import read_picture
from tests.service.conftest import TOKEN, N, fill
from tests.service.running import running


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    collection, scenes = fill(tmp_path_factory.mktemp("client") / "photos")
    limits = Limits(rate=1e6, burst=10**6, write=9 << 20)
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
    year = {"year": np.int64(2015)}
    added = client.add([{"key": "new", "image": scenes.images[0], "metadata": year}])
    assert (added.new, len(client)) == (1, N + 1)
    assert client.get("new").metadata == {"year": 2015}
    assert client.search_image(scenes.images[0], 2, "image")[0].distance == 0
    assert client.delete("new") == 1
    assert len(collection) == N


def noise(height, width):
    """The picture that compresses worst."""
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_photos_of_any_size_are_searched_with_and_added(both, tmp_path):
    client, _, _ = both
    photo = Image.fromarray(noise(3000, 4000))
    photo.save(tmp_path / "photo.jpg")
    for image in (photo, tmp_path / "photo.jpg"):
        assert client.add([{"key": "photo", "image": image}]).skipped == {}
        assert client.search_image(image, 1, "image")[0].key == "photo"
    client.delete("photo")


def test_a_picture_that_cannot_be_read_is_skipped_as_in_a_collection(both, tmp_path):
    client, collection, scenes = both
    (tmp_path / "bad.jpg").write_bytes(b"not a picture")
    records = [
        {"image": tmp_path / "bad.jpg"},
        {"image": tmp_path / "gone.jpg"},
        {"key": "words", "image": tmp_path / "bad.jpg", "text": "sea boat"},
        {"key": "good", "image": scenes.images[0]},
    ]
    added = client.add(records)
    assert client.delete(["words", "good"]) == 2
    here = collection.add(records)
    collection.delete(["words", "good"])
    assert (added.new, set(added.skipped)) == (here.new, set(here.skipped))
    assert added.new == 2
    assert "Cannot read the picture" in added.skipped[str(tmp_path / "bad.jpg")]
    assert "There is no picture" in added.skipped[str(tmp_path / "gone.jpg")]


def test_a_large_photo_is_seen_as_if_its_file_were_uploaded(tmp_path):
    Image.fromarray(noise(3000, 4000)).save(tmp_path / "photo.jpg")
    uploaded = read_picture((tmp_path / "photo.jpg").read_bytes(), Limits())
    sent = read_picture(_picture_file(tmp_path / "photo.jpg")[0], Limits())
    np.testing.assert_array_equal(np.asarray(sent), np.asarray(uploaded))


def test_items_are_sent_as_many_at_once_as_a_service_takes(both):
    client, _, _ = both
    photo = noise(1000, 1000)  # four megabytes in base64, and nine are taken
    keys = [f"photo {i}" for i in range(4)]
    assert client.add({"key": key, "image": photo} for key in keys).new == 4
    assert client.add([{"key": key, "text": "sea"} for key in keys], batch=3).updated == 4
    assert client.delete(keys) == 4


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
