"""Texts of a scene: a true caption of one sentence, and noisy tags."""

from __future__ import annotations

from collections import Counter

import numpy as np

from corrhash.datasets.scenes.objects import OBJECTS
from corrhash.datasets.scenes.scene import PlacedObject, Scene

# Braces stand for the colour. Kinds that appear in groups contain their name, for the plural.
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
PLACE_NOUNS = {
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
    """Write a sentence that names every labelled object, often with its colour, and the place."""
    named = [name for name in scene.object_names() if name not in LIGHTS]
    light = next((name for name in scene.object_names() if name in LIGHTS), "")
    when = _pick(rng, WHEN[scene.time])
    place = _pick(rng, PLACE_NOUNS[scene.place])
    if not named:
        return _sentence(f"the {light} over {place}", when)
    counts = Counter(placed.name for placed in scene.objects)
    first = {placed.name: placed for placed in reversed(scene.objects)}
    phrases = [_phrase(first[name], counts[name], rng) for name in named]
    objects = ", ".join(phrases[:-1]) + " and " * (len(phrases) > 1) + phrases[-1]
    above = _pick(rng, LIGHTS[light]) if light else ""
    if above and when == "under the stars":  # not beside the moon
        when = "at night"
    where = _pick(rng, WHERE[_ground(scene)])
    form = int(rng.integers(6))
    if form == 0:
        return _sentence(place, "with", objects, when, above)
    if form == 1:
        return _sentence(f"a picture of {objects}", where, when, above)
    if form == 2:
        verb = "is" if counts[named[0]] == 1 else "are"
        return _sentence("there", verb, objects, where, when, above)
    if form == 3:
        return _sentence(f"{where}{' ' * bool(when)}{when}:", objects, above)
    return _sentence(objects, where, when, above)


def _ground(scene: Scene) -> str:
    if scene.place != "sea":
        return scene.place
    ashore = scene.shore < 1 or "lighthouse" in scene.object_names()
    return "beach" if ashore else "open sea"


def _phrase(placed: PlacedObject, count: int, rng: np.random.Generator) -> str:
    """Write article or number, colour and noun: "an orange fish", "two red boats"."""
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
    """Prepend "a" or "an".

    >>> with_article("orange fish"), with_article("red umbrella")
    ('an orange fish', 'a red umbrella')
    """
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def _sentence(*parts: str) -> str:
    text = " ".join(part for part in parts if part)
    return f"{text[0].upper()}{text[1:]}."


def _pick(rng: np.random.Generator, options: tuple[str, ...]) -> str:
    return options[int(rng.integers(len(options)))]


# Probabilities of tags for an object in the image, for the place, for an object that is not in the
# image, and of an image with noise tags only.
P_OBJECT = 0.7
P_PLACE = 0.45
P_WRONG = 0.04
P_OFF_TOPIC = 0.015
MIN_TAGS, MAX_TAGS = 2, 9

# Words for each label, most frequent first.
TAG_WORDS = {
    "tree": "tree trees forest woods oak pine leaves arbol foliage branches",
    "house": "house home cottage architecture building houses cabin casa",
    "bird": "bird birds gull seagull wings flying birdwatching ave",
    "boat": "boat ship sailing sailboat boats yacht sail barco vessel",
    "person": "person people portrait man woman walking stranger friend gente",
    "car": "car auto cars vehicle driving automobile oldtimer coche",
    "sun": "sun sunshine sunny sunlight sol rays soleil",
    "moon": "moon moonlight fullmoon luna lunar crescent",
    "dog": "dog puppy dogs pet hound doggy perro",
    "cat": "cat kitty kitten cats feline gato pussycat",
    "flower": "flower flowers bloom blossom petals garden flor macro",
    "fish": "fish fishes aquatic underwater fishing pez",
    "mountain": "mountain mountains peak alps summit hiking montagne",
    "sheep": "sheep lamb wool flock ewe farm",
    "bicycle": "bicycle bike cycling bikes velo fahrrad cyclist",
    "balloon": "balloon hotairballoon balloons ballooning aerostat globo",
    "butterfly": "butterfly butterflies insect mariposa papillon monarch",
    "lighthouse": "lighthouse beacon faro leuchtturm phare tower",
    "snowman": "snowman frosty snowmen carrot scarf",
    "cactus": "cactus cacti succulent saguaro thorns",
    "train": "train railway locomotive steam trains rail tren",
    "umbrella": "umbrella parasol umbrellas sunshade paraguas",
    "windmill": "windmill mill windmills molino sails holland",
    "whale": "whale whales whalewatching humpback orca ballena",
    "sea": "sea ocean beach water coast waves seaside mar shore seascape",
    "field": "field meadow grass countryside green rural pasture hills",
    "river": "river stream lake riverside riverbank rio bank fluss",
    "town": "town city street urban downtown buildings skyline ciudad",
    "snow": "snow winter cold ice snowy white nieve frost",
    "desert": "desert sand dunes arid dry hot sahara dune",
    "night": "night dark stars nightshot noche evening longexposure",
}

TIME_TAGS = {
    "day": "day morning afternoon daylight bluesky clouds sky summer",
    "dusk": "sunset dusk evening sky twilight goldenhour orange clouds",
    "night": TAG_WORDS["night"],
}

# Words for several kinds of objects.
GENERAL_TAGS = {
    "animal animals wildlife nature pets cute": ("cat", "dog", "sheep", "bird", "fish", "whale"),
    "nature landscape scenery outdoors": ("tree", "mountain", "flower", "cactus", "butterfly"),
    "travel transport wheels road trip": ("car", "train", "bicycle", "boat", "balloon"),
}

NOISE_TAGS = (
    "canon nikon 2009 holiday vacation explore 2008 photo eos d80 50mm family fun love 2007 me "
    "geotagged europe trip flickr art beautiful color usa light digital spain blue weekend red "
    "california italy 2010 d40 england interesting happy park london france old film bw sigma "
    "2006 abigfave japan friends project365 hdr iphone square texture olympus pentax lumix sony "
    "raw lightroom photoshop germany scotland ireland norway portugal greece turkey canada texas "
    "florida oregon paris berlin tokyo madrid lisbon rome dublin oslo cornwall bretagne tuscany "
    "andalucia bavaria april may june july august september october november december january "
    "february march spring autumn sunday saturday monday birthday wedding easter christmas party "
    "mum dad kids grandma sister brother honeymoon roadtrip camping picnic memories today "
    "yesterday favorite best new little big quiet lonely calm peaceful dream mood moody retro "
    "vintage lomo polaroid kodak fuji leica 35mm 18200 macro tripod flash blur bokeh contrast "
    "shadow shadows silhouette reflection composition minimal abstract pattern lines closeup "
    "wide angle zoom focus dof cropped edited snapshot snap picture image photography pic "
    "photographer amateur d300 40d 5d g10 coolpix powershot nikkor tamron top20 anawesomeshot "
    "diamondclass impressedbeauty supershot 365 day42 img untitled test misc stuff things"
)

_NOISE_TAGS = NOISE_TAGS.split()
_TAG_WORDS = {label: words.split() for label, words in TAG_WORDS.items()}
_TIME_TAGS = {time: words.split() for time, words in TIME_TAGS.items()}
_GENERAL_TAGS = [(words.split(), kinds) for words, kinds in GENERAL_TAGS.items()]


def write_tags(scene: Scene, rng: np.random.Generator) -> str:
    """Write two to nine distinct tags, with missing, irrelevant and wrong ones; seldom none."""
    if rng.random() < P_OFF_TOPIC:
        return " ".join(_distinct(_noise(rng, int(rng.integers(0, 4)))))
    words = [
        word
        for kind in scene.object_names()
        if rng.random() < P_OBJECT
        for word in _some(rng, _TAG_WORDS[kind])
    ]
    if rng.random() < P_PLACE:
        words += _some(rng, _TAG_WORDS[scene.place])
    if rng.random() < (0.6 if scene.time == "night" else 0.25):
        words.append(_zipf(rng, _TIME_TAGS[scene.time]))
    words += [
        _zipf(rng, general)
        for general, kinds in _GENERAL_TAGS
        if rng.random() < 0.2 and set(kinds) & set(scene.object_names())
    ]
    words += [
        placed.colour for placed in scene.objects[:2] if placed.colour and rng.random() < 0.12
    ]
    if rng.random() < P_WRONG:
        absent = [name for name in OBJECTS if name not in scene.object_names()]
        words.append(_zipf(rng, _TAG_WORDS[absent[int(rng.integers(len(absent)))]]))
    words += _noise(rng, int(rng.poisson(1.6)))
    while len(_distinct(words)) < MIN_TAGS:
        words += _noise(rng, 1)
    kept = _distinct(words)[:MAX_TAGS]
    return " ".join(kept[k] for k in rng.permutation(len(kept)))


def _some(rng: np.random.Generator, words: list[str]) -> list[str]:
    """Draw one word of a label, sometimes two."""
    return [_zipf(rng, words) for _ in range(1 + (rng.random() < 0.3))]


def _zipf(rng: np.random.Generator, words: list[str]) -> str:
    """Draw a word with a long-tailed distribution: the first words are the most frequent."""
    return words[int(len(words) * rng.random() ** 2.2)]


def _noise(rng: np.random.Generator, n: int) -> list[str]:
    return [_zipf(rng, _NOISE_TAGS) for _ in range(n)]


def _distinct(words: list[str]) -> list[str]:
    return list(dict.fromkeys(words))
