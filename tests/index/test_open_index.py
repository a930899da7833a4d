"""open_index: addresses and the engines that answer for them."""

import subprocess
import sys

import pytest

from corrhash import InputError
from corrhash.index import engine_of, open_index
from corrhash.index.exact import ExactIndex
from corrhash.index.lancedb import LanceIndex


@pytest.mark.parametrize("uri", ["redis://x", "", "https://host/collection"])
def test_an_address_without_an_engine_is_refused_with_the_list(uri):
    with pytest.raises(InputError, match=r"no engine for .*a folder or begins with: memory:"):
        open_index(uri, 64)


def test_any_path_is_a_folder():
    assert engine_of("memory:") is ExactIndex
    for path in ("photos", "/tmp/my photos", "./milvus", "C:\\photos"):
        assert engine_of(path) is LanceIndex


def test_engines_load_only_when_they_are_asked_for():
    code = "import corrhash.index, sys; print({'lancedb', 'pyarrow', 'pymilvus'} & {*sys.modules})"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "set()"


def test_a_missing_library_names_the_extra_to_install():
    code = (
        "import sys; sys.modules['pymilvus'] = None\n"
        "from corrhash.index import open_index\n"
        "open_index('milvus://localhost:19530/x', 64)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "Install it: pip install 'corrhash[milvus]'" in result.stderr
