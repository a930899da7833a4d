"""Client: the methods of a collection, over HTTP."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from corrhash import Client, InputError, Record
from corrhash.client import _png
from corrhash.datasets.records import UnreadableRecord
from corrhash.index.filter_grammar import parse_filter
from corrhash.service.app import create_app
from corrhash.service.limits import Limits
from corrhash.service.uploads import decode_image
from tests.collection.world import calibrate
from tests.service.conftest import TOKEN, N, fill
from tests.service.running import running


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    collection, scenes = fill(tmp_path_factory.mktemp("client") / "photos")
    limits = Limits(rate=1e6, burst=10**6, write=9 << 20)
    with running(create_app(collection, limits, token=TOKEN)) as url:
        yield Client(url, TOKEN), collection, scenes


def short(matches):
    return [(match.id, match.key, match.distance, match.score) for match in matches]


def queries(collection, scenes):
    (number,) = collection.ids_of(["scene 9"]).values()
    return {
        "text": ["sea boat", "boat"],
        "image": [scenes.images[5], Image.fromarray(scenes.images[6])],
        "key": ["scene 9", "scene 1"],
        "codes": collection.codes_of([number], "image")[number],
    }


@pytest.mark.parametrize(
    "options", [{}, {"find": "text", "where": "row < 40", "offset": 2, "k": 6}]
)
@pytest.mark.parametrize("kind", ["text", "image", "key", "codes"])
def test_searches_equal_those_of_the_collection(both, kind, options):
    client, collection, scenes = both
    values = queries(collection, scenes)[kind]
    theirs = collection.search(**{kind: values}, **options)
    assert [*map(short, client.search(**{kind: values}, **options))] == [*map(short, theirs)]
    assert theirs[0]
    if kind != "codes":
        one = client.search(**{kind: values[0]}, **options)
        assert short(one) == short(theirs[0])
        assert one[0].item.labels == theirs[0][0].item.labels


@pytest.mark.parametrize("kind", ["text", "image", "key"])
def test_probabilities_are_those_of_the_collection(both, kind, monkeypatch):
    client, collection, scenes = both
    calibrate(collection, monkeypatch)
    value = queries(collection, scenes)[kind][0]
    every = collection.search(**{kind: value}, k=N)
    least = every[9].probability
    expected = [(match.id, match.probability) for match in every if match.probability >= least]
    found = client.search(**{kind: value}, k=N, min_probability=least)
    assert [(match.id, match.probability) for match in found] == expected
    assert 10 <= len(expected) < len(every)


def test_filters_and_thumbnails_are_those_of_the_collection(both):
    client, collection, _ = both
    where = parse_filter("row < 9 and not ('it''s' in labels or key = \"a\") and row != 2.5")
    mine, theirs = (
        one.search("sea", where=where, k=3, thumbnails=True) for one in (client, collection)
    )
    assert short(mine) == short(theirs)
    assert [m.item.thumbnail for m in mine] == [m.item.thumbnail for m in theirs]
    for fields in (["key", "thumbnail"], ["text"]):
        assert client.get("scene 4", fields) == collection.get("scene 4", fields)


def test_add_and_delete(both):
    client, collection, scenes = both
    year = {"year": np.int64(2015)}
    added = client.add([{"key": "new", "image": scenes.images[0], "metadata": year}])
    assert (added.new, len(client)) == (1, N + 1)
    assert client.get("new").metadata == {"year": 2015}
    assert client.search(image=scenes.images[0], k=2)[0].distance == 0
    assert client.delete("new") == 1
    assert len(collection) == N


def test_update_and_delete_by_filter(both):
    client, collection, scenes = both
    new = [{"key": f"new {i}", "text": scenes.captions[i % N]} for i in range(120)]
    assert client.add(new).new == 120
    changes = [{"key": one["key"], "metadata": {"year": 1990}} for one in new]
    updated = client.update_many([*changes, {"key": "nobody", "labels": "a|b"}], total=121)
    assert (updated.updated, updated.skipped) == (120, {"nobody": "No item has this key."})
    client.update("new 7", text=scenes.captions[40], labels="sea|calm", metadata={"year": None})
    item = collection.get("new 7")
    assert (item.text, item.labels, item.metadata) == (scenes.captions[40], ("sea", "calm"), {})
    with pytest.raises(InputError, match="Cannot update 'nobody'. No item has this key"):
        client.update("nobody", text="sea")
    with pytest.raises(InputError, match="got an image. Add the item again"):
        client.update("new 7", image=scenes.images[0])
    where = parse_filter("year = 1990")
    assert client.delete([one["key"] for one in new], where=where, dry_run=True) == 119
    assert client.delete(where=where) == 119
    assert client.delete([one["key"] for one in new]) == 1
    assert client.delete([]) == 0
    with pytest.raises(InputError, match=r"Pass keys, a filter \(where\) or both"):
        client.delete()
    assert len(collection) == N


def test_add_takes_records_as_a_collection_does(both):
    client, collection, scenes = both
    records = [
        Record("a", scenes.images[0], "sea", labels=["boat"], metadata={"year": 2015}),
        Record("b", text="boat"),
        {"key": "c", "text": "boat"},
        UnreadableRecord("d", "Damaged."),
    ]
    items = []
    for target in (client, collection):
        added = target.add(iter(records), total=4)
        assert (added.new, added.skipped) == (3, {"d": "Damaged."})
        items.append([collection.get(key) for key in "abc"])
        assert target.delete(iter("abcd")) == 3
    assert items[0] == items[1]


def noise(height, width):
    """The image that compresses worst."""
    return np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)


def test_photos_of_any_size(both, tmp_path):
    client, _, _ = both
    photo = Image.fromarray(noise(3000, 4000))
    photo.save(tmp_path / "photo.jpg")
    for image in (photo, tmp_path / "photo.jpg", (tmp_path / "photo.jpg").read_bytes()):
        assert client.add([{"key": "photo", "image": image}]).skipped == {}
        assert client.search(image=image, k=1)[0].key == "photo"
    client.delete("photo")


def test_unreadable_images_are_skipped_as_in_a_collection(both, tmp_path):
    client, collection, scenes = both
    (tmp_path / "bad.jpg").write_bytes(b"not an image")
    records = [
        {"image": tmp_path / "bad.jpg"},
        {"image": tmp_path / "gone.jpg"},
        {"key": "words", "image": tmp_path / "bad.jpg", "text": "sea boat"},
        {"key": "good", "image": scenes.images[0]},
    ]
    added = client.add(records)
    assert client.delete(["words", "good"]) == 1
    local = collection.add(records)
    collection.delete(["words", "good"])
    assert (added.new, added.skipped) == (local.new, local.skipped)
    assert added.new == 1
    files = {str(tmp_path / name) for name in ("bad.jpg", "gone.jpg")}
    assert set(added.skipped) == {*files, "words"}


def test_downscaling_equals_that_of_the_service(tmp_path):
    Image.fromarray(noise(3000, 4000)).save(tmp_path / "photo.jpg")
    uploaded = decode_image((tmp_path / "photo.jpg").read_bytes(), Limits())
    sent = decode_image(_png(tmp_path / "photo.jpg"), Limits())
    np.testing.assert_array_equal(np.asarray(sent), np.asarray(uploaded))


def test_items_are_sent_in_batches_below_the_limit(both):
    client, _, _ = both
    photo = noise(1000, 1000)  # 4 MB in base64; the service accepts 9 MB per request
    keys = [f"photo {i}" for i in range(4)]
    assert client.add({"key": key, "image": photo} for key in keys).new == 4
    assert client.add([{"key": key, "text": "sea"} for key in keys], batch=3).updated == 4
    assert client.delete(keys) == 4


def test_unknown_words_are_reported_as_in_a_collection(both, caplog):
    client, collection, _ = both
    for target in (client, collection):
        caplog.clear()
        assert len(target.search("boat xyzzy")) == 10
        warnings = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
        assert warnings == ["'xyzzy' is not in this collection's vocabulary."]


def test_errors_are_those_of_the_collection(both):
    client, collection, _ = both
    for target in (client, collection):
        with pytest.raises(InputError, match="'xyzzy' is not in this collection's vocabulary"):
            target.search("xyzzy")
        with pytest.raises(InputError, match="No item with the key 'nobody'"):
            target.get("nobody")
        with pytest.raises(InputError, match="No item with the key 'nobody'"):
            target.search(key="nobody")
    with pytest.raises(InputError, match="token is required"):
        Client(client.url, "another token here").delete("scene 1")


def test_vectors_cannot_be_sent(both):
    client, _, _ = both
    with pytest.raises(InputError, match="searched with images and strings, got vectors"):
        client.search(image=np.ones(7))
    with pytest.raises(InputError, match="Record 'a' contains vectors"):
        client.add([Record("a", np.ones(7))])


def test_missing_service_is_reported():
    with pytest.raises(InputError, match="Start the service with corrhash serve"):
        Client("http://127.0.0.1:9").info()


def test_judgments_are_stored_in_the_collection(both):
    client, collection, scenes = both
    client.judge("sea boat", item="scene 3", fits=True)
    client.judge(key="scene 1", item="scene 3", fits=False, find="text")
    client.judge(image=scenes.images[5], item="scene 3", fits=True)
    collection.judge(image=scenes.images[5], item="scene 3", fits=True)  # the same image
    stored = [(one.kind, one.item, one.verdict, one.find) for one in collection.judgments()]
    assert stored == [
        ("text", "scene 3", 1, "image"),
        ("key", "scene 3", -1, "text"),
        ("image", "scene 3", 1, "image"),
    ]
    client.judge("sea boat", item="scene 3", fits=None)
    assert len(collection.judgments()) == 2
    with pytest.raises(InputError, match="No item with the key 'nobody'"):
        client.judge("sea", item="nobody", fits=True)
    with pytest.raises(InputError, match="A token is required"):
        Client(client.url).judge("sea", item="scene 3", fits=True)


def test_duplicates_are_those_of_the_collection(both):
    client, collection, scenes = both
    mirrored = scenes.images[7][:, ::-1]
    collection.add([{"key": "mirrored", "image": mirrored, "text": "sea"}])
    found = client.duplicates()
    assert found == [
        replace(group, items=tuple(replace(item, path="") for item in group.items))
        for group in collection.duplicates()
    ]
    assert ("scene 7", "mirrored") in [group.keys for group in found]
    collection.delete("mirrored")
    with pytest.raises(InputError, match="the default max_distance, got 3"):
        client.duplicates(3)
