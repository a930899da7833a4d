"""Tags as people type them: some of what is to be seen, other words for it, and noise."""

from __future__ import annotations

import numpy as np

from corrhash.datasets.drawing.scene import Scene
from corrhash.datasets.drawing.things import THINGS

SEEN = 0.7  # how often a thing in the picture is tagged at all
SET = 0.45  # how often its place is
WRONG = 0.04  # how often a picture carries the tag of a thing that is not there
OFF_TOPIC = 0.015  # how often none of the tags has to do with the picture
FEWEST, MOST = 2, 9

# The surface forms of each label, the likeliest first.
WORDS = {
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

TIMES = {
    "day": "day morning afternoon daylight bluesky clouds sky summer",
    "dusk": "sunset dusk evening sky twilight goldenhour orange clouds",
    "night": WORDS["night"],
}

# Words that go with several things at once.
GENERAL = {
    "animal animals wildlife nature pets cute": ("cat", "dog", "sheep", "bird", "fish", "whale"),
    "nature landscape scenery outdoors": ("tree", "mountain", "flower", "cactus", "butterfly"),
    "travel transport wheels road trip": ("car", "train", "bicycle", "boat", "balloon"),
}

NOISE = (
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

_NOISE = NOISE.split()
_OWN = {label: words.split() for label, words in WORDS.items()}
_TIMES = {time: words.split() for time, words in TIMES.items()}
_GENERAL = [(words.split(), kinds) for words, kinds in GENERAL.items()]


def write_tags(scene: Scene, rng: np.random.Generator) -> str:
    """Two to nine words, seldom none, some missing, some idle, a few wrong.

    Returns
    -------
    Words with single spaces between, none twice.
    """
    if rng.random() < OFF_TOPIC:
        return " ".join(_distinct(_idle(rng, int(rng.integers(0, 4)))))
    words = [
        word for kind in scene.kinds() if rng.random() < SEEN for word in _some(rng, _OWN[kind])
    ]
    if rng.random() < SET:
        words += _some(rng, _OWN[scene.place])
    if rng.random() < (0.6 if scene.time == "night" else 0.25):
        words.append(_zipf(rng, _TIMES[scene.time]))
    words += [
        _zipf(rng, general)
        for general, kinds in _GENERAL
        if rng.random() < 0.2 and set(kinds) & set(scene.kinds())
    ]
    words += [placed.colour for placed in scene.things[:2] if placed.colour and rng.random() < 0.12]
    if rng.random() < WRONG:
        absent = [name for name in THINGS if name not in scene.kinds()]
        words.append(_zipf(rng, _OWN[absent[int(rng.integers(len(absent)))]]))
    words += _idle(rng, int(rng.poisson(1.6)))
    while len(_distinct(words)) < FEWEST:
        words += _idle(rng, 1)
    kept = _distinct(words)[:MOST]
    return " ".join(kept[k] for k in rng.permutation(len(kept)))


def _some(rng: np.random.Generator, words: list[str]) -> list[str]:
    """One of a label's words, sometimes two."""
    return [_zipf(rng, words) for _ in range(1 + (rng.random() < 0.3))]


def _zipf(rng: np.random.Generator, words: list[str]) -> str:
    """A word of the list, the first ones much likelier: the power gives Zipf's long tail."""
    return words[int(len(words) * rng.random() ** 2.2)]


def _idle(rng: np.random.Generator, n: int) -> list[str]:
    return [_zipf(rng, _NOISE) for _ in range(n)]


def _distinct(words: list[str]) -> list[str]:
    return list(dict.fromkeys(words))
