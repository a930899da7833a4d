"""Synthetic images as files, with captions and a model trained on them."""

from dataclasses import replace

import numpy as np
from PIL import Image

from corrhash.calibration import DIRECTIONS, Calibration, DirectionCalibration
from corrhash.collection.generations import Encoder
from corrhash.datasets import PairedDataset, Reader, Vocabulary
from corrhash.datasets.image_features import ImageFeatures
from corrhash.datasets.scenes.dataset import draw_scenes
from corrhash.methods import METHODS
from corrhash.model import Model

N = 90


class World:
    """90 scenes as image files, with captions and a fitted model."""

    def __init__(self, folder):
        self.scenes = draw_scenes(N, size=48)
        self.paths = [folder / f"{row:02}.png" for row in range(N)]
        for path, pixels in zip(self.paths, self.scenes.images, strict=True):
            Image.fromarray(pixels).save(path)
        words = Vocabulary.fit(self.scenes.captions, min_count=2)
        self.reader = Reader(words, ImageFeatures("simple"))
        raw = PairedDataset(self.scenes.images, self.scenes.captions)
        self.hasher = METHODS["cvh"](n_bits=24).fit(self.reader.read(raw))
        self.model = Model(self.hasher, self.reader)

    def record(self, row, **changes):
        labels = np.array(self.scenes.label_names)[self.scenes.labels[row] > 0].tolist()
        return {
            **{"key": f"scene {row}", "image": self.paths[row]},
            **{"text": self.scenes.captions[row], "labels": labels, "metadata": {"row": row}},
        } | changes

    def records(self, rows=range(N)):
        return [self.record(row) for row in rows]

    def codes(self, modality):
        if modality == "image":
            return self.hasher.encode_image(self.reader.read_images(self.scenes.images))
        return self.hasher.encode_text(self.reader.read_texts(self.scenes.captions))


def nearest_rows(queries, database, k):
    distances = queries.hamming(database).astype(int)[0]
    order = np.argsort(distances, kind="stable")[:k]
    return order, distances[order]


def nearest_scenes(collection, query, database, k):
    """Rows and distances of the nearest scenes, equal distances in order of id."""
    ids = collection.ids_of([f"scene {row}" for row in range(len(database))])
    distances = query.hamming(database).astype(int)[0]
    order = np.lexsort(([ids[f"scene {row}"] for row in range(len(database))], distances))[:k]
    return order, distances[order]


def keys(matches):
    return [match.key for match in matches]


def same(codes, others):
    return np.array_equal(codes.packed, others.packed)


def linear_calibration(n_bits):
    """A calibration whose probabilities fall with distance, differently by direction."""
    directions = {}
    for number, name in enumerate(DIRECTIONS, start=1):
        by_cosine, by_distance = np.linspace(0, 1, 201), np.linspace(1, 0, n_bits + 1)
        tables = {
            "query distance": by_distance,
            "distance": by_distance**2,
            "query cosine": by_cosine,
            "cosine": by_cosine**2,
        }
        tables = {measure: table / number for measure, table in tables.items()}
        directions[name] = DirectionCalibration(tables, 100, 200, 0.5, 0.0)
    return Calibration(directions)


def calibrate(collection, monkeypatch):
    """Give the model of a collection linear probabilities, for one test."""
    generation, model = collection.encoders.current()
    model = replace(model, calibration=linear_calibration(collection.n_bits))
    monkeypatch.setattr(collection.encoders, "_encoder", Encoder(generation, model))
