"""Generation: rolled-back and replaced databases, and lost logs, are noticed."""

import shutil

import numpy as np
import pytest

from corrhash import Codes, StorageError
from corrhash.index import Item, open_index
from corrhash.index.sqlite_generation import GENERATION_FILE, Generation, read_generation
from corrhash.index.sqlite_storage import DATABASE_FILE


def random_codes(n, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, 64)))


@pytest.fixture
def folder(tmp_path):
    index = open_index(tmp_path / "c", 64)
    index.add([0, 1], random_codes(2), [Item("a"), Item("b")])
    index.close()
    return tmp_path / "c"


def test_rolled_back_database_is_refused(folder, tmp_path):
    shutil.copy(folder / DATABASE_FILE, tmp_path / "old.db")
    index = open_index(folder, 64)
    index.delete([0])
    index.close()
    shutil.copy(tmp_path / "old.db", folder / DATABASE_FILE)
    with pytest.raises(StorageError, match=r"rolled back or replaced.*version 1, but version 2"):
        open_index(folder, 64)
    (folder / GENERATION_FILE).unlink()  # as the message suggests for a restored backup
    assert len(open_index(folder, 64)) == 2


def test_another_database_is_refused(folder, tmp_path):
    other = open_index(tmp_path / "other", 64)
    for number in range(3):
        other.add([number], random_codes(1))
    other.close()
    shutil.copy(tmp_path / "other" / DATABASE_FILE, folder / DATABASE_FILE)
    with pytest.raises(StorageError, match="rolled back or replaced"):
        open_index(folder, 64)


def test_lost_log_is_noticed(folder, tmp_path):
    index = open_index(folder, 64)
    index.add([2], random_codes(1))
    with index._reading():  # the log exists while a connection is open
        shutil.copytree(folder, tmp_path / "copy")
    (tmp_path / "copy" / f"{DATABASE_FILE}-wal").unlink()
    (tmp_path / "copy" / f"{DATABASE_FILE}-shm").unlink()
    with pytest.raises(StorageError, match="its log collection.db-wal was lost"):
        open_index(tmp_path / "copy", 64)


def test_file_replaced_while_it_is_open_is_noticed(folder, tmp_path, caplog):
    open_index(tmp_path / "other", 64).add([5], random_codes(1, seed=5), [Item("z")])
    index = open_index(folder, 64)
    assert index.search(random_codes(1), 9).rows[0].tolist() == [0, 1]
    (tmp_path / "other" / DATABASE_FILE).replace(folder / DATABASE_FILE)
    with pytest.raises(StorageError, match="rolled back or replaced"):
        index.search(random_codes(1), 9)
    (folder / GENERATION_FILE).unlink()
    assert index.search(random_codes(1), 9).rows[0].tolist() == [5]
    assert "was replaced. Reading all codes again" in caplog.text


def test_damaged_generation_is_replaced_by_the_next_write(folder, caplog):
    (folder / GENERATION_FILE).write_text("1 2 3")
    index = open_index(folder, 64)
    assert "collection.generation is damaged" in caplog.text
    index.add([2], random_codes(1))
    assert read_generation(folder).version == 2
    assert isinstance(read_generation(folder), Generation)


def test_new_database_forgets_the_old_generation(folder):
    (folder / DATABASE_FILE).unlink()
    index = open_index(folder, 64)
    assert len(index) == 0
    assert not (folder / GENERATION_FILE).exists()
