"""A collection of synthetic scenes, and the service that publishes it."""

import io
import zlib

import numpy as np
import pytest
from PIL import Image
from starlette.testclient import TestClient

from corrhash.collection.collection import Collection
from corrhash.datasets import PairedDataset, Reader, Vocabulary
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.scenes import draw_scenes
from corrhash.methods import METHODS
from corrhash.model import Model
from corrhash.service.app import create_app
from corrhash.service.limits import Limits

N = 60
TOKEN = "a token that nobody guesses"
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


def fill(uri):
    """Create a collection of scenes with captions, one of them hostile, and its model."""
    scenes = draw_scenes(N, size=64)
    reader = Reader(Vocabulary.fit(scenes.captions, min_count=2), ImageFeatures("simple"))
    hasher = METHODS["cvh"](n_bits=24).fit(
        reader.read(PairedDataset(scenes.images, scenes.captions))
    )
    collection = Collection.create(uri, Model(hasher, reader))
    names = np.array(scenes.label_names)
    collection.add(
        {
            **{"key": f"scene {row}", "image": scenes.images[row], "text": scenes.captions[row]},
            **{"labels": names[scenes.labels[row] > 0].tolist(), "metadata": {"row": row}},
        }
        for row in range(N)
    )
    hostile = {
        "text": f"sea {HOSTILE}",
        "labels": [HOSTILE],
        "metadata": {"row": 0, "note": HOSTILE},
    }
    collection.update("scene 0", **hostile)
    return collection, scenes


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("service") / "photos")


@pytest.fixture(scope="session")
def collection(filled):
    return filled[0]


@pytest.fixture(scope="session")
def scenes(filled):
    return filled[1]


@pytest.fixture(scope="session")
def generous():
    """Limits that tests do not reach."""
    return Limits(rate=1e6, burst=10**6)


@pytest.fixture(scope="session")
def service(collection, generous):
    with TestClient(create_app(collection, generous), raise_server_exceptions=False) as client:
        yield client


def image_bytes(pixels, form="PNG", **options):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, form, **options)
    return file.getvalue()


def bomb_bytes(side):
    """Return a small file whose header declares ``side`` x ``side`` pixels."""
    data = bytearray(image_bytes(np.zeros((8, 8), bool)))
    data[16:24] = side.to_bytes(4) + side.to_bytes(4)
    data[29:33] = zlib.crc32(data[12:29]).to_bytes(4)
    return bytes(data)
