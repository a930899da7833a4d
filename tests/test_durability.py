"""What was acknowledged survives: killed writers, and several processes at once."""

import pytest
from tools.durability import BATCH, Count, Writer, check, kill_writers, make_model

from corrhash.collection import Collection
from corrhash.saved_model import load_model
from tests.engine_addresses import new_address


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("durability") / "model"
    make_model(folder)
    return folder


@pytest.fixture(params=["a folder", "milvus://"])
def address(request, model, tmp_path):
    with new_address(request.param, tmp_path) as uri:
        Collection.create(uri, *load_model(model))
        yield uri


def test_what_a_killed_writer_had_acknowledged_is_there(address, model):
    count = kill_writers(address, model, rounds=2)
    assert count.clean, count
    assert count.rounds == 2
    assert count.acknowledged >= 2 * BATCH


def test_two_writers_and_a_reader_lose_nothing(address, model):
    writers = [Writer(address, model, 0), Writer(address, model, 10_000)]
    reader = Collection.open(address, model)
    for writer in writers:
        writer.go()
    sizes = []
    while min(len(writer.acknowledged) for writer in writers) < 5:
        sizes.append(len(reader))
        for writer in writers:
            writer.listen(0.01)
    for writer in writers:
        writer.kill()
    assert sizes == sorted(sizes)
    count = check(address, model, writers)
    assert count.clean, count
    acknowledged = sum(len(writer.acknowledged) for writer in writers) * BATCH
    assert acknowledged <= len(reader) <= acknowledged + 2 * BATCH


def test_a_loss_would_be_seen(model, tmp_path):
    """The check itself is checked: it must count what is missing, changed or torn."""
    collection = Collection.create(tmp_path / "c", *load_model(model))
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
