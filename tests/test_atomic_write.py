"""atomic_write: the old file or the new one, never half of one."""

import pytest

from corrhash import InputError
from corrhash.atomic_write import atomic_write


def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")

    def interrupted():
        with atomic_write(path) as file:
            file.write(b"half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_finished_write_replaces_the_old_file(tmp_path):
    path = tmp_path / "model.json"
    path.write_text("old")
    with atomic_write(path) as file:
        file.write(b"new")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_is_not_overwritten_by_a_file(tmp_path):
    with pytest.raises(InputError, match="it is a folder"), atomic_write(tmp_path):
        pass


def test_a_folder_that_is_not_there_is_named(tmp_path):
    with (
        pytest.raises(InputError, match=r"Cannot write .*missing"),
        atomic_write(tmp_path / "missing" / "file"),
    ):
        pass
