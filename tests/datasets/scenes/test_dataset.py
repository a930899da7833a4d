"""Scenes depend on the seed only, and have true labels, true captions and noisy tags."""

import re
import subprocess
import sys

import numpy as np
import pytest

import corrhash.datasets.scenes.dataset
from corrhash.datasets.scenes import (
    OBJECTS,
    SCENE_LABELS,
    compose,
    draw_scenes,
    write_caption,
    write_tags,
)
from corrhash.datasets.scenes.dataset import scene_labels
from corrhash.datasets.scenes.drawing import COLOURS
from corrhash.datasets.scenes.texts import TAG_WORDS
from corrhash.errors import InputError

OTHER_NOUNS = {
    "house": "cottage",
    "bicycle": "bike",
    "umbrella": "parasol",
    "person": "people",
    "butterfly": "butterflies",
    "cactus": "cacti",
}


@pytest.fixture(scope="module")
def described():
    """1,500 scenes with tags and captions, not drawn."""
    rngs = [np.random.default_rng([0, row]) for row in range(1500)]
    scenes = [compose(rng) for rng in rngs]
    return [
        (scene, write_tags(scene, rng), write_caption(scene, rng))
        for scene, rng in zip(scenes, rngs, strict=True)
    ]


@pytest.fixture(scope="module")
def few():
    return draw_scenes(6, seed=3)


def test_shapes_and_types(few):
    assert few.images.shape == (6, 96, 96, 3)
    assert few.images.dtype == np.uint8
    assert few.labels.shape == (6, len(SCENE_LABELS))
    assert few.labels.dtype == np.uint8
    assert set(np.unique(few.labels)) == {0, 1}
    assert len(few.tags) == len(few.captions) == 6
    assert few.label_names == SCENE_LABELS


def test_the_same_seed_gives_the_same_images(few):
    again = draw_scenes(6, seed=3)
    assert np.array_equal(again.images, few.images)
    assert np.array_equal(again.labels, few.labels)
    assert (again.tags, again.captions) == (few.tags, few.captions)


def test_another_seed_gives_other_images(few):
    other = draw_scenes(6, seed=4)
    assert all((a != b).any() for a, b in zip(other.images, few.images, strict=True))
    assert other.captions != few.captions


def test_an_image_depends_on_neither_n_nor_workers(monkeypatch):
    monkeypatch.setattr(corrhash.datasets.scenes.dataset, "MIN_PER_PROCESS", 10)
    alone = draw_scenes(31, seed=3, workers=1)
    shared = draw_scenes(31, seed=3, workers=2)
    start = draw_scenes(5, seed=3)
    assert np.array_equal(alone.images, shared.images)
    assert np.array_equal(alone.labels, shared.labels)
    assert (alone.tags, alone.captions) == (shared.tags, shared.captions)
    assert np.array_equal(start.images, alone.images[:5])
    assert start.tags == alone.tags[:5]


def test_a_script_without_a_main_guard_can_draw_in_processes(tmp_path):
    script = tmp_path / "draw.py"
    script.write_text(
        "from corrhash.datasets.scenes import dataset\n"
        "dataset.MIN_PER_PROCESS = 10\n"
        "print(dataset.draw_scenes(30, size=16, workers=2).images.shape)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert ran.stdout.split("\n") == ["(30, 16, 16, 3)", ""]


def test_three_in_ten_pairs_share_a_label(described):
    labels = np.array([scene_labels(scene) for scene, _, _ in described], dtype=float)
    shared = labels @ labels.T > 0
    n = len(labels)
    assert 0.27 < (shared.sum() - n) / (n * (n - 1)) < 0.33


def test_every_label_occurs_and_frequencies_differ(described):
    rates = np.mean([scene_labels(scene) for scene, _, _ in described], axis=0)
    assert rates.min() > 0.02
    assert rates.max() / rates.min() > 4


def test_an_object_is_tagged_seven_times_in_ten(described):
    tagged = [
        bool(set(TAG_WORDS[kind].split()) & set(tags.split()))
        for scene, tags, _ in described
        for kind in scene.object_names()
    ]
    assert 0.64 < np.mean(tagged) < 0.76


def test_few_tags_are_wrong(described):
    wrong = [
        any(kind in tags.split() for kind in OBJECTS if kind not in scene.object_names())
        for scene, tags, _ in described
    ]
    assert 0.002 < np.mean(wrong) < 0.06


def test_the_number_of_tags(described):
    counts = np.array([len(tags.split()) for _, tags, _ in described])
    assert counts.max() <= 9
    assert 0.0 < np.mean(counts < 2) < 0.02
    assert np.mean(counts == 0) > 0.0
    assert 3 < counts.mean() < 6


def test_tags_are_distinct(described):
    assert all(len(set(tags.split())) == len(tags.split()) for _, tags, _ in described)


def test_tags_have_a_long_tailed_vocabulary(described):
    words = [word for _, tags, _ in described for word in tags.split()]
    counts = np.unique(words, return_counts=True)[1]
    assert 300 < len(counts) < 600
    assert np.median(counts) < 0.2 * counts.max()


def test_noise_tags_are_frequent(described):
    noisy = [tags for _, tags, _ in described if set(tags.split()) & {"canon", "nikon", "2009"}]
    assert 0.1 < len(noisy) / len(described) < 0.5


def test_a_caption_names_every_object(described):
    for scene, _, caption in described:
        for kind in scene.object_names():
            assert kind in caption.lower() or OTHER_NOUNS[kind] in caption, caption


def test_a_caption_names_only_colours_of_the_scene(described):
    n_named = 0
    for scene, _, caption in described:
        colours = {placed.colour for placed in scene.objects}
        named = set(re.findall("|".join(COLOURS), caption.lower()))
        assert named <= colours, caption
        n_named += bool(named)
    assert n_named > 0.5 * len(described)


def test_a_caption_names_the_colour_of_each_object(described):
    for scene, _, caption in described:
        for placed in scene.objects:
            for colour in COLOURS:
                if f"{colour} {placed.name}" in caption.lower():
                    assert placed.colour == colour, caption


def test_a_caption_is_one_grammatical_sentence(described):
    for _, _, caption in described:
        assert re.fullmatch(r"[A-Z][a-z ,:-]*\.", caption), caption
        assert not re.search(r"\b[Aa] [aeiou]|\b[Aa]n [^aeiou]|  ", caption), caption


def test_captions_are_varied(described):
    assert len({caption for _, _, caption in described}) > 0.9 * len(described)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n": 0}, "n must be at least 1, got 0."),
        ({"n": 1, "size": 15}, "size must be at least 16, got 15."),
        ({"n": 1, "seed": -1}, "seed must be at least 0, got -1."),
        ({"n": 1, "workers": 0}, "workers must be at least 1, got 0. Omit it"),
    ],
)
def test_invalid_arguments_raise(wrong, message):
    with pytest.raises(InputError, match=re.escape(message)):
        draw_scenes(**wrong)
