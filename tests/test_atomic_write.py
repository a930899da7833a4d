"""atomic_write: the old file or folder or the new one, never half of one."""

from pathlib import Path

import pytest

from corrhash import InputError
from corrhash.atomic_write import (
    atomic_write,
    is_temporary,
    replace_folder,
    stepped_aside,
    temporary_name,
)


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


def folder_of(path, content):
    path.mkdir()
    (path / "file").write_text(content)
    return path


def content_of(folder):
    return (folder / "file").read_text()


def test_names_of_what_was_interrupted_are_known_again():
    path = Path("photos") / "model.json"
    assert temporary_name(path).parent == path.parent
    assert is_temporary(temporary_name(path), "model.json")
    assert not is_temporary(temporary_name(path), "model.jsob")
    for name in (".model_json.0123abcd.tmp", ".model.json.0123abcd.tmp2", ".model.json.mine.tmp"):
        assert not is_temporary(Path(name), "model.json")


def test_a_folder_takes_the_place_of_another(tmp_path):
    for content in ("first", "second"):
        replace_folder(folder_of(tmp_path / "new", content), tmp_path / "model")
        assert content_of(tmp_path / "model") == content
        assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("moment", [1, 2])
def test_a_replacement_that_was_interrupted_is_made_good(tmp_path, monkeypatch, moment):
    """Before the old folder stepped aside and before the new one came, renames are two."""
    folder, plain, calls = folder_of(tmp_path / "model", "old"), Path.rename, []

    def killed(self, target):
        calls.append(target)
        if len(calls) >= moment:  # nothing is done afterwards
            raise KeyboardInterrupt
        return plain(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(folder_of(tmp_path / "lost", "lost"), folder)
    monkeypatch.undo()
    there = folder if moment == 1 else stepped_aside(folder)
    assert content_of(there) == "old"
    with pytest.raises(FileNotFoundError):  # the next one fails, too, and the old one is back
        replace_folder(tmp_path / "missing", folder)
    assert content_of(folder) == "old"
    replace_folder(folder_of(tmp_path / "new", "new"), folder)
    assert content_of(folder) == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost", "model"]


def test_an_old_folder_that_was_not_removed_goes_with_the_next_replacement(tmp_path):
    folder = folder_of(tmp_path / "model", "newer")
    folder_of(stepped_aside(folder), "old")
    replace_folder(folder_of(tmp_path / "new", "newest"), folder)
    assert content_of(folder) == "newest"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
