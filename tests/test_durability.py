"""Acknowledged items survive killed writers and concurrent processes."""

import pytest
from tools.durability import BATCH, Count, Writer, check, kill_writers, make_model

from corrhash.collection.collection import Collection
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


def test_concurrent_writers_lose_nothing(uri, model):
    writers = [Writer(uri, model, 0), Writer(uri, model, 10_000)]
    reader = Collection.open(uri, model)
    for writer in writers:
        writer.go()
    sizes = []
    while min(len(writer.acknowledged) for writer in writers) < 5:
        sizes.append(len(reader))
        for writer in writers:
            assert writer.process.is_alive()
            writer.listen(0.01)
    for writer in writers:
        writer.kill()
    assert sizes == sorted(sizes)
    count = check(uri, model, writers)
    assert count.clean, count
    acknowledged = sum(len(writer.acknowledged) for writer in writers) * BATCH
    assert acknowledged <= len(reader) <= acknowledged + 2 * BATCH


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
