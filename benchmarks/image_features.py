"""Compute the image features of a study: ``python -m benchmarks.image_features FOLDER NETWORK``.

FOLDER holds MIRFLICKR-25K. NETWORK is a file with the convolutional layers of AlexNet, or ``onnx:``
and an ONNX encoder. Of AlexNet, the features are the output of the last convolutional layer,
averaged over 2 x 2 regions of the image: 1,024 numbers per image instead of 9,216, from which all
methods learn about as well and much faster. The file is written to FOLDER, or to ``--out``, where
the plans find it.
"""

import argparse
from pathlib import Path

import numpy as np

from corrhash.datasets import DATASETS
from corrhash.datasets.image_features import ImageFeatures

FILE = "features_alexnet_pool5_2x2.npy"
CHANNELS, CELLS, REGIONS = 256, 6, 2


def average_regions(pool5: np.ndarray) -> np.ndarray:
    """Average (n, 9216) features of 6 x 6 cells over 2 x 2 regions: (n, 1024)."""
    side = CELLS // REGIONS
    maps = pool5.reshape(-1, CHANNELS, REGIONS, side, REGIONS, side)
    averages: np.ndarray = maps.mean(axis=(3, 5))
    return averages.reshape(len(pool5), -1)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.image_features", description=__doc__
    )
    parser.add_argument("folder", type=Path, help="folder of MIRFLICKR-25K")
    parser.add_argument("network", help="weights of AlexNet (.pth, .safetensors), or onnx:FILE")
    parser.add_argument(
        "--out", type=Path, help="folder for the features; the dataset's by default"
    )
    arguments = parser.parse_args()
    images = DATASETS["mirflickr25k"](arguments.folder).pairs.images
    if arguments.network.startswith("onnx:"):
        features = ImageFeatures(arguments.network).of_dataset(images)
        name = f"features_{Path(arguments.network).stem}.npy"
    else:
        pool5 = ImageFeatures("alexnet-pool5", arguments.network).of_dataset(images)
        features, name = average_regions(pool5), FILE
    path = (arguments.out or arguments.folder) / name
    np.save(path, features.astype(np.float16))
    print(path)


if __name__ == "__main__":
    main()
