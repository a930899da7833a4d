"""SQLiteIndex: change log, transactions, backups, concurrent threads and writers."""

import multiprocessing
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from contextlib import closing

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, code_table, open_index, sqlite
from corrhash.index import sqlite_rows as sqlite_rows
from corrhash.index import sqlite_storage as sqlite_storage
from corrhash.index.items import MODALITIES
from corrhash.index.sqlite import DATABASE_FILE, SQLiteIndex
from corrhash.index.sqlite_generation import GENERATION_FILE


def random_codes(n, n_bits=64, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "c"


def codes_read(monkeypatch):
    """A list of the numbers of codes that each refresh reads."""
    read, plain = [], sqlite.read_codes

    def counting(*arguments):
        found = plain(*arguments)
        read.append([len(ids) for ids, _ in found.values()])
        return found

    monkeypatch.setattr(sqlite, "read_codes", counting)
    return read


def test_refresh_reads_only_changes(folder, monkeypatch):
    index, reader = open_index(folder, 64), open_index(folder, 64)
    index.add(np.arange(500), random_codes(500))
    read = codes_read(monkeypatch)
    reader.search(random_codes(1))
    index.add([500, 501], random_codes(2, seed=1))
    reader.search(random_codes(1))
    reader.search(random_codes(1))
    index.upsert([7, 400], {"text": random_codes(2, seed=2)})
    reader.search(random_codes(1))
    index.delete([3, 4, 100])
    assert not np.isin(reader.search(random_codes(1), 600).rows, [3, 4, 7, 100, 400]).any()
    assert read == [[500, 0], [2, 0], [0, 2], [0, 0]]


def test_reader_far_behind_loads_everything(folder, monkeypatch):
    monkeypatch.setattr(sqlite_storage, "LOG_ROWS", 5)
    index, reader = open_index(folder, 64), open_index(folder, 64)
    codes = random_codes(40)
    index.add(np.arange(40), codes)
    reader.search(codes)
    read = codes_read(monkeypatch)
    for number in range(0, 20, 2):
        index.delete([number])
    assert len(reader.search(codes[:1], 40).rows[0]) == 30
    assert read == [[30, 0]]
    with sqlite3.connect(folder / DATABASE_FILE) as connection:
        assert connection.execute("SELECT count(*) FROM changes").fetchone() == (5,)
    connection.close()


def test_codes_are_read_in_several_pages(folder, monkeypatch):
    monkeypatch.setattr(sqlite_rows, "ROWS", 7)
    index, codes = open_index(folder, 100), random_codes(30, 100)
    ids = np.arange(30) * 10**15
    index.add(ids, {"image": codes, "text": (np.arange(5), codes[:5])})
    reader = open_index(folder, 100)
    for modality, n in zip(MODALITIES, (30, 5), strict=True):
        rows, found = reader.codes_of(ids, modality)
        assert rows.tolist() == list(range(n))
        np.testing.assert_array_equal(found.packed, codes.packed[:n])


def test_block_is_one_transaction(folder):
    index, reader, codes = open_index(folder, 64), open_index(folder, 64), random_codes(3)

    def interrupted():
        with index.writing():
            index.add([0], codes[:1], [Item("a")])
            assert index.ids_of(["a"]) == {"a": 0}
            assert index.new_ids(["new"]).tolist() == [1]
            assert len(reader) == 0
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        interrupted()
    assert len(index) == len(reader) == 0
    with index.writing():
        index.add([0], codes[:1], [Item("a")])
        index.add([1], codes[1:2], [Item("b")])
    assert len(reader.search(codes[:1]).rows[0]) == 2


def test_refused_write_leaves_no_part_behind(folder):
    index, codes = open_index(folder, 64), random_codes(4)
    index.add([0, 1], codes[:2], [Item("a"), Item("b")])
    with pytest.raises(InputError, match="Key 'b' is already stored under id 1"):
        index.upsert([0, 5], codes[2:], [Item("x"), Item("b")])
    assert index.ids_of(["a", "b", "x"]) == {"a": 0, "b": 1}
    assert index.search(codes[:1], 9).rows[0, 0] == 0


def test_two_items_can_exchange_keys(folder):
    index, codes = open_index(folder, 64), random_codes(2)
    index.add([0, 1], codes, [Item("a"), Item("b")])
    index.upsert([0, 1], codes, [Item("b"), Item("a")])
    assert index.ids_of(["a", "b"]) == {"b": 0, "a": 1}


def test_delete_removes_labels_fields_and_thumbnails(folder):
    index, codes = open_index(folder, 64), random_codes(2)
    item = Item("a", labels=["x"], metadata={"y": 1}, thumbnail=b"j", image_continuous=b"c")
    index.add([0, 1], codes, [item, Item("b")])
    index.delete([0])
    connection = sqlite3.connect(folder / DATABASE_FILE)
    for table in ("labels", "fields", "thumbnails", "continuous_codes"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def test_look_creates_no_files(folder):
    assert SQLiteIndex.look(folder) is None
    assert not folder.exists()
    index = SQLiteIndex.open(folder, 64, {"method": "chn"})
    index.add([0], random_codes(1))
    index.close()
    assert {path.name for path in folder.iterdir()} == {DATABASE_FILE, GENERATION_FILE}
    assert SQLiteIndex.look(folder) == {"method": "chn", "n_bits": 64}
    assert {path.name for path in folder.iterdir()} == {DATABASE_FILE, GENERATION_FILE}
    (folder / "file").touch()
    assert SQLiteIndex.look(folder / "file") is None


def test_description_is_readable_while_others_write(folder):
    index = open_index(folder, 64)
    with index.writing():
        index.add([0], random_codes(1))
        assert SQLiteIndex.look(folder) == {"n_bits": 64}
        assert open_index(folder, 64).search(random_codes(1)).rows.shape == (1, 0)


def test_multi_index_gives_the_same_results(folder, monkeypatch):
    monkeypatch.setattr(code_table, "MULTI_INDEX_CODES", 1000)
    index, codes = open_index(folder, 64), random_codes(1600)
    index.use_multi_index()
    for start in range(0, 1600, 400):
        index.add(np.arange(start, start + 400), codes[start : start + 400])
        nearest = index.search(codes[start : start + 2], 3)
        assert nearest.rows[:, 0].tolist() == [start, start + 1]
    index.delete([5])
    expected = open_index(folder, 64).search(codes[4:7], 20)
    ranking = index.search(codes[4:7], 20)
    assert index._codes.tables["image"].view().multi_index is not None
    np.testing.assert_array_equal(ranking.rows, expected.rows)
    np.testing.assert_array_equal(ranking.distances, expected.distances)


def test_threads_read_and_write_at_once(folder):
    index, codes = open_index(folder, 64), random_codes(400)
    failures = []

    def work(start):
        try:
            for number in range(start, start + 50):
                index.add([number], codes[number : number + 1], [Item(f"key {number}")])
                assert index.search(codes[number : number + 1], 1).rows[0, 0] == number
                assert index.get([number])[0].key == f"key {number}"
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(start,)) for start in range(0, 400, 100)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(index) == 200


def vacuum_into(source, path):
    source.execute("VACUUM INTO ?", (str(path),))


def online_backup(source, path):
    target = sqlite3.connect(path)
    source.backup(target)
    target.close()


@pytest.mark.parametrize("copy", [vacuum_into, online_backup])
def test_backup_of_a_live_database_is_complete(folder, tmp_path, copy):
    index, codes = open_index(folder, 64), random_codes(10)
    index.add(np.arange(10), codes, [Item(str(i), labels=["x"]) for i in range(10)])
    (tmp_path / "backup").mkdir()
    connection = sqlite3.connect(folder / DATABASE_FILE)
    with index.writing():
        index.delete([0])  # not committed, so not in the backup
        copy(connection, tmp_path / "backup" / DATABASE_FILE)
    connection.close()
    backup = open_index(tmp_path / "backup", 64)
    backup.verify()
    assert backup.search(codes, 1).rows.ravel().tolist() == list(range(10))
    backup.delete([3])
    assert len(backup) == 9
    with sqlite3.connect(tmp_path / "backup" / DATABASE_FILE) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


WRITE_UNTIL_KILLED = """
    import sys
    import numpy as np
    from corrhash import Codes
    from corrhash.index import Item, open_index

    folder, start = sys.argv[1], int(sys.argv[2])
    index = open_index(folder, 64)
    for batch in range(start, 10**6):
        rng = np.random.default_rng(batch)
        codes = Codes(rng.integers(0, 256, (20, 8), dtype=np.uint8), 64)
        with index.writing():
            ids = index.new_ids([""] * 20)
            items = [Item(f"{batch} {i}", metadata={"batch": batch}) for i in range(20)]
            index.add(ids, codes, items)
        print(batch, flush=True)
"""


def start_writer(folder, first):
    words = [sys.executable, "-c", textwrap.dedent(WRITE_UNTIL_KILLED), str(folder), str(first)]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def kill(writer):
    """Kill a writer and return the batches that it acknowledged."""
    writer.kill()
    rest = writer.stdout.read()
    writer.wait()
    writer.stdout.close()
    return [int(line) for line in rest.splitlines()]


def test_killed_and_concurrent_writers_lose_nothing(folder):
    open_index(folder, 64)
    for round_ in range(2):
        writers = [start_writer(folder, 10_000 * (2 * round_ + i)) for i in range(2)]
        acknowledged = [int(writer.stdout.readline()) for writer in writers for _ in range(8)]
        acknowledged += [batch for writer in writers for batch in kill(writer)]
        index = open_index(folder, 64)
        for batch in acknowledged:
            ids = index.ids_of([f"{batch} {i}" for i in range(20)])
            expected = np.random.default_rng(batch).integers(0, 256, (20, 8), dtype=np.uint8)
            rows, codes = index.codes_of(list(ids.values()))
            assert len(rows) == 20
            np.testing.assert_array_equal(codes.packed, expected)
        counts = {}
        for entries in index.batches():
            for item in entries.items:
                counts[item.metadata["batch"]] = counts.get(item.metadata["batch"], 0) + 1
        assert set(counts.values()) == {20}  # no batch is torn


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_forked_processes_read_only_later_writes(folder, monkeypatch):
    codes = random_codes(30)
    index = SQLiteIndex.open(str(folder), 64)
    index.add(np.arange(20), codes[:20])
    index.search(codes[:1], 1)
    SQLiteIndex.open(str(folder), 64).add(np.arange(20, 30), codes[20:])
    read = codes_read(monkeypatch)
    receiving, sending = multiprocessing.Pipe(duplex=False)

    def search(own):
        found = index.search(codes, 1).rows[:, 0].tolist()
        index.add([own], codes[:1])
        sending.send((found, read))

    context = multiprocessing.get_context("fork")
    for own in (100, 101):
        process = context.Process(target=search, args=(own,))
        process.start()
        process.join(60)
        found, sizes = receiving.recv()
        assert found == list(range(30))
        assert sizes == [[10 + own - 100, 0]]  # the second process also reads the first one's code
    assert len(SQLiteIndex.open(str(folder), 64)) == 32


def test_number_of_items_is_stored_with_each_write(folder):
    index = open_index(str(folder), 8)
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((9, 8)))
    index.add(np.arange(6), codes[:6])
    index.upsert([4, 5, 6, 7], {"text": codes[4:8]})
    index.delete([0, 1, 99])
    with closing(sqlite3.connect(folder / "collection.db")) as connection:
        sql = "SELECT source, n FROM totals ORDER BY source"
        totals = dict(connection.execute(sql))
    assert totals == {"codes": 6, "items": 6, "keys": 0, "records": 0}
    assert len(index) == 6
    index.verify()
