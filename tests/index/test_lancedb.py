"""LanceIndex: what only a folder does, such as merging files and filling a disk."""

import json
import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from corrhash import Codes, InputError
from corrhash.index import Item, code_table, lancedb, open_index
from corrhash.index.lancedb import LanceIndex


def random_codes(n, n_bits=64, seed=0):
    return Codes.from_scores(np.random.default_rng(seed).standard_normal((n, n_bits)))


def test_files_are_merged_when_there_are_many(tmp_path, monkeypatch):
    monkeypatch.setattr(lancedb, "MANY_FRAGMENTS", 4)
    monkeypatch.setattr(lancedb, "WORTH_AN_INDEX", 20)
    index, reader = open_index(tmp_path / "c", 64), open_index(tmp_path / "c", 64)
    codes = random_codes(40)
    reader.search(codes)
    for row in range(40):
        index.add([row], codes[row], [Item(f"key {row}")])
        assert reader.search(codes[row], 1).distances.tolist() == [[0]]
        assert [item.key for item in reader.get([row, row // 2])] == [
            *(f"key {row}", f"key {row // 2}")
        ]
    files = index._table.stats()["fragment_stats"]
    assert files["num_fragments"] < 25
    assert {name for i in index._table.list_indices() for name in i.columns} == {"id", "key"}
    index.upsert([7], codes[8], [Item("other")])
    index.delete([9])
    index.compact()
    assert reader.search(codes[8], 2).rows.tolist() == [[7, 8]]
    assert reader.ids_of(["other", "key 7", "key 9", "key 10"]) == {"other": 7, "key 10": 10}


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("lost")])
def test_a_merge_that_fails_does_not_deny_what_was_written(tmp_path, monkeypatch, caplog, error):
    monkeypatch.setattr(lancedb, "MANY_FRAGMENTS", 2)
    index, codes = open_index(tmp_path / "c", 64), random_codes(4)

    def fail(**how):
        raise error

    monkeypatch.setattr(index._table, "optimize", fail)
    for row in range(3):
        index.add([row], codes[row])
    index.upsert([2], codes[3])
    assert "Cannot merge the files of" in caplog.text
    again = open_index(tmp_path / "c", 64)
    assert again.search(codes[3], 1).rows.tolist() == [[2]]
    assert len(again) == 3
    with pytest.raises(InputError, match="Cannot write into"):
        index.compact()  # who asks for it is told


def test_multi_index_hashing_answers_alike_also_after_files_are_merged(tmp_path, monkeypatch):
    monkeypatch.setattr(code_table, "WORTH_TABLES", 1000)
    index, codes = open_index(tmp_path / "c", 64), random_codes(1600)
    index.use_multi_index()
    for start in range(0, 1600, 400):
        index.add(np.arange(start, start + 400), codes[start : start + 400])
        nearest = index.search(codes[start : start + 2], 3)
        assert nearest.rows[:, 0].tolist() == [start, start + 1]
    index.delete([5])
    index.compact()
    expected = LanceIndex.open(tmp_path / "c", 64).search(codes[4:7], 20)
    answer = index.search(codes[4:7], 20)
    assert index._tables["image"].view().tables is not None
    np.testing.assert_array_equal(answer.rows, expected.rows)
    np.testing.assert_array_equal(answer.distances, expected.distances)


def test_a_search_reads_only_what_is_new(tmp_path, monkeypatch):
    index, reader = open_index(tmp_path / "c", 64), open_index(tmp_path / "c", 64)
    index.add(np.arange(500), random_codes(500))
    reader.search(random_codes(1))
    read = []
    plain = lancedb._read_codes
    monkeypatch.setattr(
        lancedb, "_read_codes", lambda column, n: read.append(len(column)) or plain(column, n)
    )
    index.add([500, 501], random_codes(2, seed=1))
    read.clear()
    reader.search(random_codes(1))
    assert read == [2, 2]  # images and texts
    reader.search(random_codes(1))
    index.delete([3])
    read.clear()
    assert 3 not in reader.search(random_codes(1), 600).rows
    assert read == []


def test_a_creation_that_was_interrupted_is_done_again(tmp_path):
    open_index(tmp_path / "c", 64)
    (tmp_path / "c" / lancedb.ABOUT_FILE).unlink()
    assert LanceIndex.look(tmp_path / "c") is None
    index = open_index(tmp_path / "c", 64)
    index.add([1], random_codes(1))
    assert len(open_index(tmp_path / "c", 64)) == 1
    (tmp_path / "c" / lancedb.ABOUT_FILE).unlink()
    with pytest.raises(InputError, match=r"holds items, but its collection.json is missing"):
        open_index(tmp_path / "c", 64)


def test_a_folder_that_is_damaged_or_of_the_future_is_told(tmp_path):
    about = tmp_path / "c" / lancedb.ABOUT_FILE
    open_index(tmp_path / "c", 64)
    content = json.loads(about.read_text())
    about.write_text(json.dumps({**content, "format": "corrhash collection 9"}))
    with pytest.raises(InputError, match="'corrhash collection 9'; this version reads"):
        open_index(tmp_path / "c", 64)
    about.write_text("{")
    with pytest.raises(InputError, match=r"Cannot read .*collection.json"):
        open_index(tmp_path / "c", 64)
    about.write_text(json.dumps({**content, "something": "of a later minor version"}))
    assert open_index(tmp_path / "c", 64).about["something"]
    shutil.rmtree(tmp_path / "c" / "items.lance")
    with pytest.raises(InputError, match="table of the collection .* cannot be read"):
        open_index(tmp_path / "c", 64)


ON_A_SMALL_DISK = """
    import sys
    import numpy as np
    from corrhash import Codes, InputError
    from corrhash.index import Item, open_index

    folder = sys.argv[1] + "/c"
    codes = Codes.from_scores(np.random.default_rng(0).standard_normal((1000, 64)))
    index = open_index(folder, 64)
    rng, done = np.random.default_rng(1), 0
    try:
        while True:
            items = [Item(str(i), thumbnail=rng.bytes(1000)) for i in range(100)]
            index.add(np.arange(done, done + 100), codes[done : done + 100], items)
            done += 100
    except InputError as error:
        print(error)
    again = open_index(folder, 64)
    assert done > 0
    assert len(index) == len(again) == done
    answer = again.search(codes[:done], 1)
    assert answer.distances.max() == 0 and len(again.get(answer.rows[:5, 0])) == 5
"""


def in_small_mount(script, option, folder):
    """Run a script on a disk of its own, of few bytes or read-only."""
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip("mounting a small disk takes root and Linux")
    mount = f'mount -t tmpfs -o {option} none "$1" && exec "$2" -c "$3" "$1"'
    words = ["unshare", "-m", "bash", "-c", mount, "_", folder, sys.executable]
    return subprocess.run(
        [str(word) for word in [*words, textwrap.dedent(script)]], capture_output=True, text=True
    )


def test_a_full_disk_is_told_and_leaves_what_was_there(tmp_path):
    result = in_small_mount(ON_A_SMALL_DISK, "size=1m", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Cannot write into" in result.stdout
    assert "No space left on device" in result.stdout
    assert "What was there before is unchanged" in result.stdout


ON_A_READ_ONLY_DISK = """
    import os, subprocess, sys
    import numpy as np
    from corrhash import Codes, InputError
    from corrhash.index import open_index

    folder = sys.argv[1] + "/c"
    codes = Codes.from_scores(np.random.default_rng(0).standard_normal((10, 64)))
    open_index(folder, 64).add(np.arange(10), codes)
    subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
    index = open_index(folder, 64)
    assert index.search(codes, 1).rows.ravel().tolist() == list(range(10))
    for work in (lambda: index.add([11], codes[0]), lambda: open_index(sys.argv[1] + "/d", 64)):
        try:
            work()
        except InputError as error:
            print(error)
    assert len(index) == 10
"""


def test_a_read_only_folder_is_searched_and_refuses_to_be_written(tmp_path):
    result = in_small_mount(ON_A_READ_ONLY_DISK, "size=9m", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Cannot write into" in result.stdout
    assert result.stdout.count("Read-only file system") == 2
