"""Captions: one true English sentence about a scene."""

from __future__ import annotations

from collections import Counter

import numpy as np

from corrhash.datasets.drawing.scene import Placed, Scene

# The braces take the colour. Kinds that come in flocks keep their own name, for the plural.
NOUNS = {
    "tree": ("{}tree", "tall {}tree"),
    "house": ("{}house", "{}cottage", "little {}house"),
    "bird": ("{}bird", "{}bird in flight"),
    "boat": ("{}boat", "{}boat", "little {}boat"),
    "person": ("person",),
    "car": ("{}car", "{}car", "old {}car"),
    "dog": ("{}dog",),
    "cat": ("{}cat", "{}cat"),
    "flower": ("{}flower",),
    "fish": ("{}fish",),
    "mountain": ("mountain", "distant mountain"),
    "sheep": ("{}sheep", "woolly {}sheep"),
    "bicycle": ("{}bicycle", "{}bike"),
    "balloon": ("{}hot-air balloon", "{}balloon"),
    "butterfly": ("{}butterfly",),
    "lighthouse": ("{}lighthouse", "tall {}lighthouse"),
    "snowman": ("snowman", "snowman with a hat"),
    "cactus": ("cactus",),
    "train": ("{}train", "{}steam train"),
    "umbrella": ("{}umbrella", "{}parasol", "open {}umbrella"),
    "windmill": ("{}windmill", "old {}windmill"),
    "whale": ("{}whale",),
}
PLURALS = {
    "person": "people",
    "fish": "fish",
    "sheep": "sheep",
    "butterfly": "butterflies",
    "cactus": "cacti",
}
NUMBERS = {2: "two", 3: "three"}

WHERE = {
    "open sea": ("on a calm sea", "at sea", "on the open sea", "out on the water"),
    "beach": ("by the sea", "on the coast", "at the beach", "by the water"),
    "field": ("in a field", "on a meadow", "in the countryside", "on the grass"),
    "river": ("by a river", "on the river", "by the water", "at the riverside"),
    "town": ("in town", "in a quiet street", "in the city", "on a city street"),
    "snow": ("in the snow", "in a snowy landscape", "in deep snow", "on a field of snow"),
    "desert": ("in the desert", "among the dunes", "on dry sand", "in an empty desert"),
}
PLACES = {
    "sea": ("a calm sea", "the sea", "an open sea"),
    "field": ("a meadow", "a field", "an open field"),
    "river": ("a river", "a quiet river", "a riverside"),
    "town": ("a quiet street", "a town", "a city"),
    "snow": ("a snowy landscape", "the snow"),
    "desert": ("the desert", "a desert", "an empty desert"),
}
WHEN = {
    "day": ("", "", "by day", "in the morning", "in the afternoon"),
    "dusk": ("at dusk", "at sunset", "in the evening", ""),
    "night": ("at night", "late at night", "under the stars"),
}
LIGHTS = {
    "sun": ("under the sun", "in the sunshine", "in full sun"),
    "moon": ("under the moon", "by moonlight", "under a bright moon"),
}


def write_caption(scene: Scene, rng: np.random.Generator) -> str:
    """A sentence that names every labelled thing and the place.

    Colours are named often but not always; those named are true.
    """
    named = [name for name in scene.kinds() if name not in LIGHTS]
    light = next((name for name in scene.kinds() if name in LIGHTS), "")
    when = _pick(rng, WHEN[scene.time])
    place = _pick(rng, PLACES[scene.place])
    if not named:
        return _sentence(f"the {light} over {place}", when)
    counts = Counter(placed.name for placed in scene.things)
    first = {placed.name: placed for placed in reversed(scene.things)}
    phrases = [_phrase(first[name], counts[name], rng) for name in named]
    things = ", ".join(phrases[:-1]) + " and " * (len(phrases) > 1) + phrases[-1]
    above = _pick(rng, LIGHTS[light]) if light else ""
    if above and when == "under the stars":  # one light above is enough
        when = "at night"
    where = _pick(rng, WHERE[_ground(scene)])
    form = int(rng.integers(6))
    if form == 0:
        return _sentence(place, "with", things, when, above)
    if form == 1:
        return _sentence(f"a picture of {things}", where, when, above)
    if form == 2:
        verb = "is" if counts[named[0]] == 1 else "are"
        return _sentence("there", verb, things, where, when, above)
    if form == 3:
        return _sentence(f"{where}{' ' * bool(when)}{when}:", things, above)
    return _sentence(things, where, when, above)


def _ground(scene: Scene) -> str:
    if scene.place != "sea":
        return scene.place
    ashore = scene.shore < 1 or "lighthouse" in scene.kinds()
    return "beach" if ashore else "open sea"


def _phrase(placed: Placed, count: int, rng: np.random.Generator) -> str:
    """An article or a number, perhaps a colour, a noun: "an orange fish", "two red boats"."""
    noun = _pick(rng, NOUNS[placed.name])
    colour = placed.colour if placed.colour and rng.random() < 0.75 else ""
    if count > 1:
        noun = noun.replace(placed.name, PLURALS.get(placed.name, f"{placed.name}s"))
    if placed.name == "person":
        words = f"{noun} in {colour}" if colour else noun
    else:
        words = noun.format(f"{colour} " if colour else "")
    return f"{NUMBERS[count]} {words}" if count > 1 else with_article(words)


def with_article(words: str) -> str:
    """The words after "a" or "an".

    >>> with_article("orange fish"), with_article("red umbrella")
    ('an orange fish', 'a red umbrella')
    """
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _sentence(*parts: str) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}."


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]
