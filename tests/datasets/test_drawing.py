"""What is drawn can be seen where it stands, in the colour that is named, where it makes sense."""

import numpy as np
import pytest

from corrhash.datasets.drawing import CLUTTER, SETTINGS, THINGS, Placed, Scene, compose, draw
from corrhash.datasets.drawing.camera import photograph
from corrhash.datasets.drawing.colours import COLOURS, LIGHTS
from corrhash.datasets.drawing.composing import MOST_COVERED, covered
from corrhash.datasets.drawing.pen import Paper
from corrhash.datasets.drawing.scene import draw_thing

WIDTH = 192
EMPTY = Scene("field", "day", 0.5, 1.0, (), (), 0)
BACKGROUND = (0, 225, 205)  # no thing is painted in anything like it


@pytest.fixture(scope="module")
def scenes():
    return [compose(np.random.default_rng([1, row])) for row in range(1000)]


def draw_alone(name, colour="", mirrored=False, seed=0):
    """The thing on a plain sheet: the pixels, and which of them changed."""
    thing = THINGS.get(name) or CLUTTER[name]
    size = min(0.5, 0.8 / thing.width)
    placed = Placed(name, 0.5, 0.75, size, colour, mirrored, 0.0, seed)
    paper = Paper(WIDTH, LIGHTS["day"])
    paper.image.paste(BACKGROUND, (0, 0, WIDTH, WIDTH))
    draw_thing(paper, EMPTY, placed)
    pixels = np.asarray(paper.image).astype(int)
    return placed, pixels, np.abs(pixels - BACKGROUND).max(axis=2) > 40  # more than a glow


@pytest.mark.parametrize("name", [*THINGS, *CLUTTER])
def test_a_thing_changes_the_picture_where_it_stands(name):
    placed, _, changed = draw_alone(name, *THINGS.get(name, CLUTTER.get(name)).colours[:1])
    left, top, right, bottom = (round(edge * WIDTH) for edge in placed.box())
    inside = changed[top:bottom, max(0, left) : right]
    assert inside.mean() > 0.1
    assert inside.sum() > 0.7 * changed.sum()


@pytest.mark.parametrize("name", [name for name, thing in THINGS.items() if thing.colours])
def test_a_thing_is_painted_in_the_colour_it_is_named_by(name):
    for word in THINGS[name].colours:
        _, pixels, changed = draw_alone(name, word)
        far = np.abs(pixels[changed] - np.array(COLOURS[word][:3])).max(axis=1)
        assert (far < 50).mean() > 0.08, word


@pytest.mark.parametrize("name", THINGS)
def test_no_two_of_a_kind_need_look_the_same(name):
    colour = next(iter(THINGS[name].colours), "")
    forms = {draw_alone(name, colour, seed=seed)[1].tobytes() for seed in range(12)}
    assert len(forms) > 1


def test_a_mirrored_thing_is_the_mirror_image():
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


def test_every_setting_looks_different():
    pictures = [
        draw(Scene(place, "day", 0.45, 0.75, (), (), 5), 32).astype(float) for place in SETTINGS
    ]
    for one in range(len(pictures)):
        for other in range(one):
            assert np.abs(pictures[one] - pictures[other]).mean() > 8


@pytest.mark.parametrize("place", SETTINGS)
def test_night_is_darker_than_day(place):
    day, night = (draw(Scene(place, time, 0.45, 0.8, (), (), 3), 48) for time in ("day", "night"))
    assert night.mean() < 0.7 * day.mean()


def test_the_camera_adds_noise_but_keeps_the_picture(scenes):
    paper = Paper(WIDTH, LIGHTS["day"])
    SETTINGS["town"].draw(paper, 0.5, 1.0, np.random.default_rng(0))
    shots = [photograph(paper.image, 96, np.random.default_rng(seed)) for seed in range(2)]
    assert not np.array_equal(*shots)
    assert np.corrcoef(shots[0].ravel(), shots[1].ravel())[0, 1] > 0.9


def test_every_scene_has_one_to_four_kinds_of_things(scenes):
    assert {len(scene.kinds()) for scene in scenes} == {1, 2, 3, 4}


def test_the_sun_does_not_shine_at_night_nor_the_moon_by_day(scenes):
    seen = {(scene.time, kind) for scene in scenes for kind in scene.kinds()}
    assert {("day", "sun"), ("dusk", "sun"), ("dusk", "moon"), ("night", "moon")} <= seen
    assert not {("night", "sun"), ("day", "moon")} & seen
    assert not any({"sun", "moon"} <= set(scene.kinds()) for scene in scenes)


def test_things_are_where_they_make_sense(scenes):
    for scene in scenes:
        for placed in scene.things:
            if placed.thing.zone == "water":
                assert scene.place in ("sea", "river")
                assert scene.horizon < placed.y < scene.shore
            elif placed.thing.zone == "ground":
                assert placed.y > (scene.horizon if scene.shore == 1 else scene.shore)
            elif placed.thing.zone == "sky":
                assert placed.y < scene.horizon


def test_near_things_are_larger_than_far_ones(scenes):
    feet = [
        (placed.y, placed.size)
        for scene in scenes
        for placed in scene.things
        if placed.name == "house"
    ]
    assert np.corrcoef(np.array(feet).T)[0, 1] > 0.3


def test_things_hide_one_another_a_little_and_never_much(scenes):
    hidden = [
        covered(one, other)
        for scene in scenes
        for row, one in enumerate(scene.things)
        for other in scene.things[:row]
    ]
    assert max(hidden) < MOST_COVERED
    assert np.mean(np.array(hidden) > 0.02) > 0.05
