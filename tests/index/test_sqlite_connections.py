"""Connections: waiting writers, forks, full disks, folders that cannot be written."""

import multiprocessing
import shutil
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

from corrhash import Codes, StorageError
from corrhash.index import Item, open_index, sqlite_connections
from corrhash.index.sqlite_connections import Connections
from corrhash.index.sqlite_storage import DATABASE_FILE

FORK = multiprocessing.get_context("fork")


def random_codes(n, n_bits=64, seed=0):
    return Codes.from_continuous(np.random.default_rng(seed).standard_normal((n, n_bits)))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "c"


def test_waiting_for_a_writer_ends_with_an_error(folder, monkeypatch):
    monkeypatch.setattr(sqlite_connections, "BUSY_SECONDS", 0.2)
    one, other = open_index(folder, 64), open_index(folder, 64)
    with one.writing(), pytest.raises(StorageError, match="for more than 0.2 s") as raised:
        other.add([0], random_codes(1))
    assert raised.value.problem == "busy"
    other.add([0], random_codes(1))
    assert len(one) == 1


def test_readers_do_not_wait_for_a_writer(folder, monkeypatch):
    monkeypatch.setattr(sqlite_connections, "BUSY_SECONDS", 0)
    one, other = open_index(folder, 64), open_index(folder, 64)
    one.add([0], random_codes(1), [Item("a")])
    with one.writing():
        one.add([1], random_codes(1))
        assert other.search(random_codes(1)).rows.tolist() == [[0]]
        assert other.get([0])[0].key == "a"
        assert len(open_index(folder, 64)) == 1


def in_child(work):
    """Run work in a forked process and return its result, or the error it raised."""
    ours, theirs = FORK.Pipe()

    def run():
        try:
            theirs.send(work())
        except StorageError as error:
            theirs.send(error)

    child = FORK.Process(target=run)
    child.start()
    assert ours.poll(60)
    result = ours.recv()
    child.join()
    return result


def test_forked_process_writes_after_its_parent_closed(folder):
    """Without connections of its own, the child would write to a log that the parent deletes."""
    index, codes = open_index(folder, 64), random_codes(4)
    index.add([0], codes[:1])
    index.search(codes)
    ours, theirs = FORK.Pipe()

    def work():
        assert len(index) == 1
        theirs.send("opened")
        theirs.recv()
        index.add([1], codes[1:2])
        theirs.send(index.search(codes[:2], 1).rows.ravel().tolist())

    child = FORK.Process(target=work)
    child.start()
    assert ours.recv() == "opened"
    index.add([2], codes[2:3])
    index.close()
    ours.send("write")
    assert ours.recv() == [0, 1]
    child.join()
    assert sorted(open_index(folder, 64).search(codes[:1]).rows[0]) == [0, 1, 2]
    assert index.search(codes, 1).rows.ravel().tolist()[:3] == [0, 1, 2]


def test_fork_waits_for_other_threads(folder):
    index, codes, stop = open_index(folder, 64), random_codes(200), threading.Event()
    index.add(np.arange(100), codes[:100])

    def work(start):
        number = start
        while not stop.is_set():
            index.upsert([number], codes[number : number + 1])
            index.search(codes[:1])
            number = start + (number + 1 - start) % 50

    threads = [threading.Thread(target=work, args=(start,)) for start in (100, 150)]
    for thread in threads:
        thread.start()
    results = [in_child(lambda: index.search(codes[:9], 1).rows.ravel().tolist()) for _ in range(9)]
    stop.set()
    for thread in threads:
        thread.join()
    assert results == [list(range(9))] * 9


def test_process_forked_inside_a_write_cannot_use_the_index(folder):
    index, codes = open_index(folder, 64), random_codes(2)

    def work():
        with pytest.raises(StorageError, match="forked while"):
            index.add([1], codes[1:])
        return index.search(codes)

    with index.writing():
        index.add([0], codes[:1])
        result = in_child(work)
    assert isinstance(result, StorageError)
    assert "start processes with spawn" in str(result)
    assert open_index(folder, 64).search(codes[:1]).rows.tolist() == [[0]]


READ_WITHOUT_PERMISSION = """
    import sys
    import numpy as np
    from corrhash import Codes
    from corrhash.index import open_index

    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((30, 64)))
    index = open_index(sys.argv[1], 64)
    for line in sys.stdin:
        print(sorted(index.search(codes[:1], 30).rows[0].tolist()), len(index), flush=True)
"""


def test_reader_without_permission_sees_later_writes(folder):
    """Such a reader opens the file without locks, as long as nobody writes."""
    command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
    if not shutil.which("setpriv") or subprocess.run([*command, "true"]).returncode:
        pytest.skip("dropping capabilities needs root and Linux")
    codes = random_codes(30)
    index = open_index(folder, 64)
    index.add(np.arange(10), codes[:10])
    index.close()
    folder.chmod(0o555)
    (folder / DATABASE_FILE).chmod(0o444)
    words = [*command, sys.executable, "-c", textwrap.dedent(READ_WITHOUT_PERMISSION), folder]
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as reader:

        def answer():
            reader.stdin.write("?\n")
            reader.stdin.flush()
            return reader.stdout.readline().strip()

        assert answer() == f"{list(range(10))} 10"
        index.add(np.arange(10, 20), codes[10:20])  # the log exists
        assert answer() == f"{list(range(20))} 20"
        index.delete([3])
        assert answer() == f"{[0, 1, 2, *range(4, 20)]} 19"
        reader.stdin.close()
    index.close()
    with subprocess.Popen(words, stdin=-1, stdout=-1, text=True) as reader:
        assert answer() == f"{[0, 1, 2, *range(4, 20)]} 19"
        index.add(np.arange(20, 30), codes[20:])
        index.close()  # the log is gone, and the file has changed
        assert answer() == f"{[0, 1, 2, *range(4, 30)]} 29"
        reader.stdin.close()


def test_change_during_a_read_without_locks_raises(folder, monkeypatch):
    index = open_index(folder, 64)
    index.add([0], random_codes(1))
    index.close()
    monkeypatch.setattr(sqlite_connections.os, "access", lambda *_: False)
    connections = Connections(folder / DATABASE_FILE)

    def read():
        with connections.lend() as connection:
            with (folder / DATABASE_FILE).open("ab") as file:
                file.write(b"more")
            return connection.execute("SELECT count(*) FROM codes").fetchone()

    with pytest.raises(StorageError, match="changed while it was read. Try again") as raised:
        read()
    assert raised.value.problem == "busy"


ON_A_SMALL_DISK = """
    import sys
    import numpy as np
    from corrhash import Codes, StorageError
    from corrhash.index import Item, open_index

    folder = sys.argv[1] + "/c"
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((1000, 64)))
    index = open_index(folder, 64)
    rng, done = np.random.default_rng(1), 0
    try:
        while True:
            items = [Item(str(i), thumbnail=rng.bytes(1000)) for i in range(done, done + 50)]
            index.add(np.arange(done, done + 50), codes[done : done + 50], items)
            done += 50
    except StorageError as error:
        print(error)
    again = open_index(folder, 64)
    assert done > 0
    assert len(index) == len(again) == done
    ranking = again.search(codes[:done], 1)
    assert ranking.distances.max() == 0 and len(again.get(ranking.rows[:5, 0])) == 5
"""


def on_small_disk(script, option, folder):
    """Run a script on a file system of its own, with few bytes or read-only."""
    tried = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    if tried.returncode:
        pytest.skip("mounting a file system needs root and Linux")
    mount = f'mount -t tmpfs -o {option} none "$1" && exec "$2" -c "$3" "$1"'
    words = ["unshare", "-m", "bash", "-c", mount, "_", folder, sys.executable]
    return subprocess.run(
        [str(word) for word in [*words, textwrap.dedent(script)]], capture_output=True, text=True
    )


def test_full_disk_raises_and_keeps_stored_items(tmp_path):
    result = on_small_disk(ON_A_SMALL_DISK, "size=1m", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Cannot write to" in result.stdout
    assert "full" in result.stdout
    assert "stored items are unchanged" in result.stdout


ON_A_READ_ONLY_DISK = """
    import subprocess, sys
    import numpy as np
    from corrhash import Codes, InputError, StorageError
    from corrhash.index import open_index

    folder = sys.argv[1] + "/c"
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((10, 64)))
    index = open_index(folder, 64)
    index.add(np.arange(10), codes)
    index.close()
    subprocess.run(["mount", "-o", "remount,ro", sys.argv[1]], check=True)
    index = open_index(folder, 64)
    assert index.search(codes, 1).rows.ravel().tolist() == list(range(10))
    for work in (lambda: index.add([11], codes[0]), lambda: open_index(sys.argv[1] + "/d", 64)):
        try:
            work()
        except (InputError, StorageError) as error:
            print(error)
    assert len(index) == 10
"""


def test_read_only_folder_can_be_searched(tmp_path):
    result = on_small_disk(ON_A_READ_ONLY_DISK, "size=9m", tmp_path)
    assert result.returncode == 0, result.stderr
    assert "Cannot write to" in result.stdout
    assert "attempt to write a readonly database" in result.stdout
    assert "Read-only file system" in result.stdout
