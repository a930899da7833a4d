"""Several processes fill one collection from shards: every item is there once, whoever dies."""

import signal
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest

from corrhash.collection.collection import Collection
from corrhash.datasets import make_pairs
from corrhash.methods.cvh import CVH
from corrhash.model import Model, TrainingRun
from tests.datasets.formats.test_tar import npy, write_tar
from tests.engine_uris import new_uri

N_FILES, N_ITEMS = 4, 120
"""Items are of each file."""


@pytest.fixture(scope="module")
def pairs():
    return make_pairs(N_FILES * N_ITEMS, seed=3)


@pytest.fixture(scope="module")
def model(pairs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("shards") / "model"
    Model(CVH(32).fit(pairs), training=TrainingRun("shards")).save(folder)
    return folder


@pytest.fixture(scope="module")
def shards(pairs, tmp_path_factory):
    """A folder of tar files with a feature vector an item."""
    folder = tmp_path_factory.mktemp("shards") / "files"
    folder.mkdir()
    for number in range(N_FILES):
        rows = pairs.images[number * N_ITEMS : (number + 1) * N_ITEMS]
        members = [(f"{row}.npy", npy(vector)) for row, vector in enumerate(rows)]
        write_tar(folder / f"part{number}.tar", members)
    return folder


@pytest.fixture(params=["a folder", "milvus://"])
def address(request, tmp_path):
    with new_uri(request.param, tmp_path) as uri:
        yield uri


def start(address, shards, model, share):
    index = [sys.executable, "-m", "corrhash", "index", address, shards, "--model", model]
    index += ["--shard", share, "--batch", "5"]
    return subprocess.Popen([*map(str, index)], stdout=subprocess.PIPE, text=True)


def finished(process):
    printed, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return printed


def keys_of(files):
    return [f"part{number}/{row}" for number in files for row in range(N_ITEMS)]


def wait_until_some_are_there(address, model, keys):
    collection = None
    while collection is None or len(collection.index.ids_of(keys)) < 20:
        time.sleep(0.02)
        try:
            collection = collection or Collection.open(address, model)
        except ValueError:
            time.sleep(0.1)  # it is not there yet


def test_a_killed_process_is_started_again_and_every_item_is_there_once(
    address, shards, model, pairs
):
    first, second = (start(address, shards, model, share) for share in ("0/2", "1/2"))
    wait_until_some_are_there(address, model, keys_of([1, 3]))
    second.send_signal(signal.SIGKILL)
    assert second.wait() == -signal.SIGKILL  # it was at work
    second.stdout.close()
    n_before = len(Collection.open(address, model).index.ids_of(keys_of([1, 3])))
    again = finished(start(address, shards, model, "1/2"))
    assert f"{2 * N_ITEMS - n_before} new, {n_before} unchanged" in again
    finished(first)

    collection = Collection.open(address, model)
    there = [(item.key, number) for e in collection.index.batches() for number, item in entry(e)]
    assert Counter(key for key, _ in there) == Counter(keys_of(range(N_FILES)))
    ids = dict(there)
    rows, codes = collection.index.codes_of([ids[key] for key in keys_of(range(N_FILES))], "image")
    np.testing.assert_array_equal(rows, np.arange(len(pairs)))
    expected = collection.model.hasher.encode_image(pairs.images)
    np.testing.assert_array_equal(codes.packed, expected.packed)


def entry(entries):
    return zip(entries.ids.tolist(), entries.items, strict=True)
