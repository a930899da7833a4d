"""open_index: the engine of each URI."""

import subprocess
import sys

import pytest

from corrhash import InputError
from corrhash.index import engine_of, open_index
from corrhash.index.memory import MemoryIndex
from corrhash.index.sqlite import SQLiteIndex


@pytest.mark.parametrize("uri", ["redis://x", "", "https://host/collection"])
def test_unknown_scheme_lists_the_engines(uri):
    with pytest.raises(
        InputError, match=r"No engine for the URI .* starts with: memory:, milvus://"
    ):
        open_index(uri, 64)


def test_path_opens_the_folder_engine():
    assert engine_of("memory:") is MemoryIndex
    for path in ("photos", "/tmp/my photos", "./milvus", "C:\\photos"):
        assert engine_of(path) is SQLiteIndex


def test_engines_are_imported_on_use():
    code = "import corrhash.index, sys; print({'sqlite3', 'numba', 'pymilvus'} & {*sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_missing_package_names_the_extra():
    code = (
        "import sys; sys.modules['pymilvus'] = None\n"
        "from corrhash.index import open_index\n"
        "open_index('milvus://localhost:19530/x', 64)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Install it with: pip install 'corrhash[milvus]'" in result.stderr
