"""Shards and training splits: what every file format relies on."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets.formats.base import Shard, split_records
from corrhash.datasets.records import Record

SIZES = {"n_query": None, "n_validation": None, "n_train": None}


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_shards_hold_every_value_once(n):
    shards = [Shard(index, n) for index in range(n)]
    selected = [list(shard.select(range(10))) for shard in shards]
    assert sorted(value for part in selected for value in part) == list(range(10))
    assert [shard.size(10) for shard in shards] == [len(part) for part in selected]


def test_a_shard_is_parsed_or_set_by_torchrun(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert Shard.from_environment() == Shard()
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert Shard.from_environment() == Shard.parse("2/3") == Shard(2, 3)


@pytest.mark.parametrize("text", ["4/4", "1", "a/b", "-1/2", "0/0"])
def test_an_invalid_shard_is_rejected(text):
    with pytest.raises(InputError, match=f"shard must be I/N with I < N, .*got '{text}'"):
        Shard.parse(text)


def test_feature_vectors_are_stacked(tmp_path):
    records = [Record(str(row), np.full(3, row), "a boat") for row in range(10)]
    split = split_records(records, tmp_path, "boats", 0, SIZES)
    assert split.pairs.images.shape == (10, 3)
    mixed = [*records, Record("x", "a.jpg", "a boat")]
    with pytest.raises(InputError, match="Only 10 of 11 items .* have a feature vector"):
        split_records(mixed, tmp_path, "boats", 0, SIZES)
