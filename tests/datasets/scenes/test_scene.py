"""Objects are drawn where they are placed and in their colour, and scenes are plausible."""

import numpy as np
import pytest

from corrhash.datasets.scenes import CLUTTER, OBJECTS, PLACES, PlacedObject, Scene, compose, draw
from corrhash.datasets.scenes.composition import MAX_OVERLAP, overlap
from corrhash.datasets.scenes.drawing import COLOURS, LIGHTS, Canvas
from corrhash.datasets.scenes.scene import apply_camera, draw_object

WIDTH = 192
EMPTY = Scene("field", "day", 0.5, 1.0, (), (), 0)
BACKGROUND = (0, 225, 205)  # unlike the colour of any object


@pytest.fixture(scope="module")
def scenes():
    return [compose(np.random.default_rng([1, row])) for row in range(1000)]


def draw_alone(name, colour="", mirrored=False, seed=0):
    """Draw an object on a plain canvas; return it, the pixels and which of them changed."""
    kind = OBJECTS.get(name) or CLUTTER[name]
    size = min(0.5, 0.8 / kind.width)
    placed = PlacedObject(name, 0.5, 0.75, size, colour, mirrored, 0.0, seed)
    canvas = Canvas(WIDTH, LIGHTS["day"])
    canvas.image.paste(BACKGROUND, (0, 0, WIDTH, WIDTH))
    draw_object(canvas, EMPTY, placed)
    pixels = np.asarray(canvas.image).astype(int)
    return placed, pixels, np.abs(pixels - BACKGROUND).max(axis=2) > 40  # more than a glow


@pytest.mark.parametrize("name", [*OBJECTS, *CLUTTER])
def test_an_object_is_drawn_inside_its_box(name):
    placed, _, changed = draw_alone(name, *OBJECTS.get(name, CLUTTER.get(name)).colours[:1])
    left, top, right, bottom = (round(edge * WIDTH) for edge in placed.box())
    inside = changed[top:bottom, max(0, left) : right]
    assert inside.mean() > 0.1
    assert inside.sum() > 0.7 * changed.sum()


@pytest.mark.parametrize("name", [name for name, kind in OBJECTS.items() if kind.colours])
def test_an_object_is_drawn_in_its_colour(name):
    for word in OBJECTS[name].colours:
        _, pixels, changed = draw_alone(name, word)
        far = np.abs(pixels[changed] - np.array(COLOURS[word][:3])).max(axis=1)
        assert (far < 50).mean() > 0.08, word


@pytest.mark.parametrize("name", OBJECTS)
def test_objects_of_a_kind_vary_in_shape(name):
    colour = next(iter(OBJECTS[name].colours), "")
    forms = {draw_alone(name, colour, seed=seed)[1].tobytes() for seed in range(12)}
    assert len(forms) > 1


def test_a_mirrored_object_is_the_mirror_image():
    _, _, changed = draw_alone("dog", "brown")
    _, _, mirrored = draw_alone("dog", "brown", mirrored=True)
    assert (changed[:, ::-1] == mirrored).mean() > 0.98
    assert (changed == mirrored).mean() < 0.98


def test_a_scene_is_drawn_the_same_each_time(scenes):
    assert np.array_equal(draw(scenes[0]), draw(scenes[0]))


@pytest.mark.parametrize("size", [16, 33, 96, 150])
def test_a_scene_is_drawn_at_any_size(scenes, size):
    image = draw(scenes[0], size)
    assert image.shape == (size, size, 3)
    assert image.dtype == np.uint8
    assert image.std() > 10


def test_another_size_shows_the_same_scene(scenes):
    for scene in scenes[:20]:
        large = draw(scene, 96).reshape(32, 3, 32, 3, 3).mean(axis=(1, 3))
        small = draw(scene, 32)
        assert np.corrcoef(large.ravel(), small.ravel())[0, 1] > 0.9


def test_every_place_looks_different():
    images = [
        draw(Scene(place, "day", 0.45, 0.75, (), (), 5), 32).astype(float) for place in PLACES
    ]
    for one in range(len(images)):
        for other in range(one):
            assert np.abs(images[one] - images[other]).mean() > 8


@pytest.mark.parametrize("place", PLACES)
def test_night_is_darker_than_day(place):
    day, night = (draw(Scene(place, time, 0.45, 0.8, (), (), 3), 48) for time in ("day", "night"))
    assert night.mean() < 0.7 * day.mean()


def test_the_camera_adds_noise_but_keeps_the_image(scenes):
    canvas = Canvas(WIDTH, LIGHTS["day"])
    PLACES["town"].draw(canvas, 0.5, 1.0, np.random.default_rng(0))
    shots = [apply_camera(canvas.image, 96, np.random.default_rng(seed)) for seed in range(2)]
    assert not np.array_equal(*shots)
    assert np.corrcoef(shots[0].ravel(), shots[1].ravel())[0, 1] > 0.9


def test_every_scene_has_one_to_four_kinds_of_objects(scenes):
    assert {len(scene.object_names()) for scene in scenes} == {1, 2, 3, 4}


def test_no_sun_at_night_and_no_moon_by_day(scenes):
    seen = {(scene.time, kind) for scene in scenes for kind in scene.object_names()}
    assert {("day", "sun"), ("dusk", "sun"), ("dusk", "moon"), ("night", "moon")} <= seen
    assert not {("night", "sun"), ("day", "moon")} & seen
    assert not any({"sun", "moon"} <= set(scene.object_names()) for scene in scenes)


def test_objects_are_in_plausible_places(scenes):
    for scene in scenes:
        for placed in scene.objects:
            if placed.kind.zone == "water":
                assert scene.place in ("sea", "river")
                assert scene.horizon < placed.y < scene.shore
            elif placed.kind.zone == "ground":
                assert placed.y > (scene.horizon if scene.shore == 1 else scene.shore)
            elif placed.kind.zone == "sky":
                assert placed.y < scene.horizon


def test_near_objects_are_larger(scenes):
    feet = [
        (placed.y, placed.size)
        for scene in scenes
        for placed in scene.objects
        if placed.name == "house"
    ]
    assert np.corrcoef(np.array(feet).T)[0, 1] > 0.3


def test_objects_overlap_only_slightly(scenes):
    hidden = [
        overlap(one, other)
        for scene in scenes
        for row, one in enumerate(scene.objects)
        for other in scene.objects[:row]
    ]
    assert max(hidden) < MAX_OVERLAP
    assert np.mean(np.array(hidden) > 0.02) > 0.05
