"""Near-duplicates: copies of images are grouped, similar images are not."""

import io

import numpy as np
import pytest
from PIL import Image

from corrhash import InputError
from corrhash.collection import Collection
from corrhash.collection.duplicates import MIRROR, _aligned, _grey, _Groups, _signature
from corrhash.datasets.images import preview
from corrhash.datasets.scenes.dataset import draw_scenes

N = 40


def jpeg(image, quality=90):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def copies_of(image):
    width, height = image.size
    box = (round(0.04 * width), round(0.01 * height), round(0.99 * width), round(0.96 * height))
    return {
        "resized": image.resize((width * 2 // 3, height * 2 // 3)),
        "re-encoded": jpeg(image, 40),
        "cropped": image.crop(box),
        "mirrored": image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    }


@pytest.fixture(scope="module")
def images():
    return [Image.fromarray(pixels) for pixels in draw_scenes(N, size=160).images]


@pytest.fixture(scope="module")
def collection(world, images):
    """40 scenes, and copies of the first three."""
    collection = Collection.create("memory:", world.model)
    collection.add({"key": f"{row}", "image": image} for row, image in enumerate(images))
    collection.add(
        {"key": f"{row} {kind}", "image": copy}
        for row in range(3)
        for kind, copy in copies_of(images[row]).items()
    )
    return collection


def keys(groups):
    return [{*group.keys} for group in groups]


def test_copies_are_grouped_and_nothing_else(collection, images):
    groups = collection.duplicates()
    kinds = list(copies_of(images[0]))
    expected = [{f"{row}", *(f"{row} {kind}" for kind in kinds)} for row in range(3)]
    assert keys(groups) == expected
    for group in groups:
        assert 0.95 <= group.similarity <= 1
        assert list(group.ids) == sorted(group.ids)
        assert group.ids == tuple(collection.ids_of(group.keys).values())
        assert group.items[0].thumbnail is None
    assert len(collection) == N + 12


def test_codes_of_candidates_are_within_the_radius(world, images):
    found = Collection.create("memory:", world.model)
    for row in range(10):
        found.delete(where="key != ''")
        found.add([{"key": "a", "image": images[row]}])
        found.add([{"key": "b", "image": copies_of(images[row])["cropped"]}])
        a, b = found.codes_of(list(found.ids_of(["a", "b"]).values()), "image").values()
        if distance := int(a.hamming(b)[0, 0]):
            break
    assert keys(found.duplicates(distance)) == [{"a", "b"}]
    assert found.duplicates(distance - 1) == []


def test_equal_files_are_grouped_at_any_distance(world, tmp_path):
    collection = Collection.create("memory:", world.model)
    for name in ("a.png", "b.png", "c.png"):
        (tmp_path / name).write_bytes(world.paths[3].read_bytes())
    collection.add({"key": name, "image": tmp_path / name} for name in ("a.png", "b.png", "c.png"))
    assert keys(collection.duplicates(0)) == [{"a.png", "b.png", "c.png"}]
    assert collection.duplicates()[0].similarity == 1


def test_items_without_a_picture_are_skipped(collection, world, caplog):
    blank = Collection.create("memory:", world.model)
    blank.add([{"key": "text", "text": "boat"}])
    with pytest.raises(InputError, match="No item in this collection has an image to compare"):
        blank.duplicates()
    grey = Image.new("RGB", (64, 64), "grey")
    blank.add({"key": key, "image": grey} for key in ("a", "b"))
    blank.add([{"key": "scene", "image": world.paths[0]}])
    assert blank.duplicates() == []
    assert "3 items were not compared" in caplog.text


def test_invalid_distances_are_refused(collection):
    with pytest.raises(InputError, match="max_distance must be a non-negative integer, got -1"):
        collection.duplicates(-1)


def test_mirroring_changes_known_bits_of_a_signature(images):
    for image in images[:5]:
        mirrored = image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        one, other = (_signature(preview(each))[0] for each in (image, mirrored))
        assert (one ^ other ^ MIRROR).bit_count() <= 5 < 20 < (one ^ other).bit_count()


def test_alignment_finds_a_crop(images):
    whole = images[7].resize((400, 400))
    part = whole.crop((6, 22, 378, 394))  # 7% of each side, off centre
    other = images[8].resize((400, 400))
    whole, part, other = (_grey(jpeg(image)) for image in (whole, part, other))
    assert _aligned(whole, part) > 0.95 > _aligned(part, whole)
    assert _aligned(whole, other) < 0.9


def test_groups_are_connected_components():
    groups = _Groups(7)
    for first, second, correlation in ((5, 6, 0.99), (1, 3, 0.97), (6, 3, 0.96)):
        groups.join(first, second, correlation)
    assert [groups.root(row) for row in range(7)] == [0, 1, 2, 1, 4, 1, 1]
    assert groups.lowest == {1: 0.96}
    assert groups.joined(1, 5)
    assert not groups.joined(0, 1)
    groups.join(0, 4, None)
    assert groups.lowest == {0: None, 1: 0.96}


def test_scenes_are_not_all_alike(images):
    """The expected groups mean something only if the images differ."""
    assert len({np.asarray(image).tobytes() for image in images}) == N
