"""Compute a feature file of a study: ``python -m benchmarks.features FOLDER ENCODER``.

FOLDER holds MIRFLICKR-25K, or a manifest with its photographs. ENCODER is ``onnx:`` and an ONNX
encoder, of texts with ``--texts``, or a file with the convolutional layers of AlexNet. The features
of AlexNet are the output of its last convolutional layer, averaged over 2 x 2 regions of the image:
1,024 numbers per image instead of 9,216, from which all methods learn about as well and much
faster. The file is written to FOLDER, or to ``--out``, where the plans find it.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from corrhash.datasets import DATASETS, ImageFiles
from corrhash.datasets.image_features import ONNX, ImageFeatures
from corrhash.datasets.text_features import TextFeatures

MANIFEST = "manifest.jsonl"
ALEXNET = "alexnet_pool5_2x2"
CHANNELS, CELLS, REGIONS = 256, 6, 2


def read_pairs(folder: Path) -> tuple[ImageFiles, Sequence[str]]:
    """Return the photographs and the texts of a folder, in the order of the feature files."""
    if (folder / MANIFEST).exists():
        rows = [json.loads(line) for line in (folder / MANIFEST).read_text().splitlines()]
        paths = [folder / row["image"] for row in rows]
        return ImageFiles(paths), [row["text"] for row in rows]
    pairs = DATASETS["mirflickr25k"](folder).pairs
    return pairs.images, pairs.texts


def average_regions(pool5: np.ndarray) -> np.ndarray:
    """Average (n, 9216) features of 6 x 6 cells over 2 x 2 regions: (n, 1024)."""
    side = CELLS // REGIONS
    maps = pool5.reshape(-1, CHANNELS, REGIONS, side, REGIONS, side)
    averages: np.ndarray = maps.mean(axis=(3, 5))
    return averages.reshape(len(pool5), -1)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.features", description=__doc__)
    parser.add_argument("folder", type=Path, help="folder of MIRFLICKR-25K, or with a manifest")
    parser.add_argument("encoder", help="onnx:FILE, or weights of AlexNet (.pth, .safetensors)")
    parser.add_argument("--texts", action="store_true", help="encode the texts, not the images")
    parser.add_argument("--name", help="name of the features, in place of that of the encoder")
    parser.add_argument(
        "--out", type=Path, help="folder for the features; the dataset's by default"
    )
    arguments = parser.parse_args()
    images, texts = read_pairs(arguments.folder)
    name = arguments.name or Path(arguments.encoder.removeprefix(ONNX)).stem
    if arguments.texts:
        features = TextFeatures(arguments.encoder).of_dataset(texts)
    elif arguments.encoder.startswith(ONNX):
        features = ImageFeatures(arguments.encoder).of_dataset(images)
    else:
        pool5 = ImageFeatures("alexnet-pool5", arguments.encoder).of_dataset(images)
        features, name = average_regions(pool5), arguments.name or ALEXNET
    path = (arguments.out or arguments.folder) / f"features_{name}.npy"
    np.save(path, features.astype(np.float16))
    print(path)


if __name__ == "__main__":
    main()
