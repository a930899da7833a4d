"""The folder of a new collection: what an interruption left is no hindrance, other files are."""

import subprocess
import sys
import textwrap
import threading
import time

import pytest

from corrhash import InputError
from corrhash.atomic_write import atomic_write, stepped_aside
from corrhash.collection import Collection
from corrhash.collection_folder import MODEL_FOLDER, creating_in
from corrhash.datasets import make_pairs
from corrhash.methods import METHODS

KILLED_WHILE_WRITING = """
    import os, sys
    from corrhash.collection import Collection
    from corrhash.datasets import Reader, make_pairs
    from corrhash.methods import METHODS

    uri, owner, name = sys.argv[1:]
    if owner == "Reader":
        Reader.save = lambda self, folder: os._exit(9)
    else:
        plain, os.fsync = os.fsync, lambda handle: (
            os._exit(9) if name in os.readlink(f"/proc/self/fd/{handle}") else plain(handle)
        )
    Collection.create(uri, METHODS["cvh"](n_bits=8).fit(make_pairs(60, seed=0)))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the moment is found by names of open files")
@pytest.mark.parametrize(("owner", "left"), [("Reader", ".model."), ("file", ".collection.json.")])
def test_a_creation_that_was_killed_is_done_again(tmp_path, owner, left):
    code = textwrap.dedent(KILLED_WHILE_WRITING)
    command = [sys.executable, "-c", code, str(tmp_path / "c"), owner, left]
    assert subprocess.run(command, check=False).returncode == 9
    assert [path for path in (tmp_path / "c").iterdir() if path.name.startswith(left)]
    hasher = METHODS["cvh"](n_bits=8).fit(make_pairs(60, seed=0))
    assert len(Collection.create(tmp_path / "c", hasher)) == 0
    assert not [path for path in (tmp_path / "c").iterdir() if path.name.endswith(".tmp")]


def test_only_what_a_creation_writes_aside_is_removed(tmp_path):
    (tmp_path / "model").mkdir()
    stepped_aside(tmp_path / MODEL_FOLDER).mkdir()
    (tmp_path / ".collection.json.0123abcd.tmp").write_text("{")
    with creating_in(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {"model", ".creating.lock"}
    for name in (".letter.0123abcd.tmp", ".collection.json.mine.tmp", "letter.txt"):
        (tmp_path / name).write_text("mine")
        with (
            pytest.raises(InputError, match=f"holds other files, such as {name}"),
            creating_in(tmp_path),
        ):
            pass
        (tmp_path / name).unlink()
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="file is a file"), creating_in(tmp_path / "file"):
        pass


def test_one_creates_while_others_wait(tmp_path):
    seen = []

    def create(number):
        with creating_in(tmp_path), atomic_write(tmp_path / "collection.json"):
            seen.append(number)
            time.sleep(0.02)
            seen.append(number)

    threads = [threading.Thread(target=create, args=[number]) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen[::2] == seen[1::2]
    assert sorted(seen[::2]) == [0, 1, 2, 3]
