"""Acknowledged items survive killed writers, concurrent processes and power losses."""

import random
import subprocess

import pytest
from tools import power_loss
from tools.durability import (
    BATCH,
    Count,
    Writer,
    check,
    kill_one_of_two,
    kill_writers,
    lose_power,
    make_model,
)
from tools.power_loss import Call, Disk

from corrhash.collection.collection import Collection
from corrhash.errors import StorageError
from tests.engine_uris import new_uri


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("durability") / "model"
    make_model(folder)
    return folder


@pytest.fixture(params=["a folder", "milvus://"])
def uri(request, model, tmp_path):
    with new_uri(request.param, tmp_path) as new:
        Collection.create(new, model)
        yield new


def test_killed_writer_loses_nothing(uri, model):
    count = kill_writers(uri, model, rounds=2)
    assert count.clean, count
    assert count.rounds == 2
    assert count.acknowledged >= 2 * BATCH


def test_other_processes_continue_after_a_kill(uri, model):
    count = kill_one_of_two(uri, model, rounds=1)
    assert count.clean, count
    assert count.acknowledged >= 4 * BATCH


needs_recorder = pytest.mark.skipif(power_loss.why_not() is not None, reason="needs gcc and Linux")


@needs_recorder
def test_lost_power_loses_nothing(model, tmp_path):
    Collection.create(tmp_path / "c", model)
    count = lose_power(tmp_path / "c", model, rounds=2)
    assert count.clean, count
    assert count.acknowledged >= BATCH


@needs_recorder
def test_disk_that_ignores_fsync_loses_items(model, tmp_path, monkeypatch):
    apply = Disk.apply
    monkeypatch.setattr(
        Disk, "apply", lambda disk, call: None if call.operation == "s" else apply(disk, call)
    )
    Collection.create(tmp_path / "c", model)
    try:
        clean = lose_power(tmp_path / "c", model, rounds=2).clean
    except (StorageError, subprocess.CalledProcessError):
        clean = False
    assert not clean


def test_disk_holds_what_was_synced(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_bytes(b"abcdef")
    calls = [
        Call("w", old, 2, b"XY"),
        Call("t", old, 5, b""),
        Call("s", old, 0, b""),
        Call("w", old, 8, b"later"),
        Call("c", new, 0, b""),
        Call("w", new, 0, b"n" * 1000),
        Call("s", new, 0, b""),
    ]
    disk = Disk(tmp_path)
    for call in calls:
        disk.apply(call)
    found = set()
    for seed in range(40):
        disk.lose_power(random.Random(seed))
        found.add((old.read_bytes(), new.exists() and len(new.read_bytes())))
    assert {content for content, _ in found} == {b"abXYe", b"abXYe\0\0\0later"}
    assert {length for _, length in found} == {False, 1000}
    disk.apply(Call("s", tmp_path, 0, b""))
    disk.apply(Call("u", old, 0, b""))
    for seed in range(9):
        disk.lose_power(random.Random(seed))
        assert len(new.read_bytes()) == 1000


def test_disk_tears_writes_between_sectors(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"o" * 1600)
    disk = Disk(tmp_path)
    disk.apply(Call("w", path, 100, b"n" * 1400))
    found = set()
    for seed in range(200):
        disk.lose_power(random.Random(seed))
        content = path.read_bytes()
        assert content[:100] == b"o" * 100
        parts = [content[100:512], content[512:1024], content[1024:1500]]
        assert all(len(set(part)) == 1 for part in parts)
        found.add(bytes(part[0] for part in parts))
    assert len(found) == 8


def test_check_detects_loss_damage_and_torn_batches(model, tmp_path):
    collection = Collection.create(tmp_path / "c", model)
    writer = Writer(str(tmp_path / "c"), model, 0)
    writer.go()
    writer.wait_for(3)
    writer.kill()
    assert check(str(tmp_path / "c"), model, [writer]).clean
    collection.delete([f"item {i}" for i in range(3)])
    collection.update("item 5", text="", metadata={})
    writer.acknowledged.remove(1)
    collection.delete("item 25")
    found = check(str(tmp_path / "c"), model, [writer])
    assert (found.lost, found.torn) == (3, 1)
    assert found.damaged >= 1
    assert not (found + Count()).clean
