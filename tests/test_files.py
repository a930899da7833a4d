"""Files: atomic writes, the cache folder, checksums and text files."""

from pathlib import Path

import pytest

from corrhash import InputError
from corrhash._files import (
    atomic_write,
    backup_path,
    cache_folder,
    caching_in,
    check_suffix,
    file_sha256,
    is_temporary,
    read_lines,
    read_text,
    replace_folder,
    temporary_name,
)


def test_an_interrupted_write_keeps_the_old_file(tmp_path):
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


def test_writing_over_a_folder_raises(tmp_path):
    with pytest.raises(InputError, match="it is a folder"), atomic_write(tmp_path):
        pass


def test_writing_into_a_missing_folder_raises(tmp_path):
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


def test_temporary_names_are_recognized():
    path = Path("photos") / "model.json"
    assert temporary_name(path).parent == path.parent
    assert is_temporary(temporary_name(path), "model.json")
    assert not is_temporary(temporary_name(path), "model.jsob")
    for name in (".model_json.0123abcd.tmp", ".model.json.0123abcd.tmp2", ".model.json.mine.tmp"):
        assert not is_temporary(Path(name), "model.json")


def test_a_folder_replaces_another(tmp_path):
    for content in ("first", "second"):
        replace_folder(folder_of(tmp_path / "new", content), tmp_path / "model")
        assert content_of(tmp_path / "model") == content
        assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("moment", [1, 2])
def test_an_interrupted_replacement_is_repaired(tmp_path, monkeypatch, moment):
    """A replacement makes two renames and can be interrupted before each."""
    folder, plain, calls = folder_of(tmp_path / "model", "old"), Path.rename, []

    def interrupted(self, target):
        calls.append(target)
        if len(calls) >= moment:
            raise KeyboardInterrupt
        return plain(self, target)

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_folder(folder_of(tmp_path / "lost", "lost"), folder)
    monkeypatch.undo()
    kept = folder if moment == 1 else backup_path(folder)
    assert content_of(kept) == "old"
    with pytest.raises(FileNotFoundError):  # fails too, but restores the old folder
        replace_folder(tmp_path / "missing", folder)
    assert content_of(folder) == "old"
    replace_folder(folder_of(tmp_path / "new", "new"), folder)
    assert content_of(folder) == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lost", "model"]


def test_a_left_over_backup_is_removed(tmp_path):
    folder = folder_of(tmp_path / "model", "newer")
    folder_of(backup_path(folder), "old")
    replace_folder(folder_of(tmp_path / "new", "newest"), folder)
    assert content_of(folder) == "newest"
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_environment_can_set_the_cache_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("CORRHASH_CACHE", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "corrhash"
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


def test_caching_in_sets_the_folder_for_a_block(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path))
    with caching_in(tmp_path / "a"):
        with caching_in(None):
            assert cache_folder() == tmp_path / "a"
        with caching_in(tmp_path / "b"):
            assert cache_folder() == tmp_path / "b"
    assert cache_folder() == tmp_path


def test_sha256_of_a_known_file(tmp_path):
    (tmp_path / "abc").write_bytes(b"abc")  # the example of FIPS 180-4
    assert file_sha256(tmp_path / "abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )


def test_a_byte_order_mark_is_dropped(tmp_path):
    (tmp_path / "text.txt").write_bytes(b"\xef\xbb\xbfboat\r\nsea\r\n")
    assert read_text(tmp_path / "text.txt") == "boat\nsea\n"


def test_unreadable_text_files_raise(tmp_path):
    with pytest.raises(InputError, match=r"Cannot read .*gone.txt: No such file.*Check the path"):
        read_text(tmp_path / "gone.txt")
    with pytest.raises(InputError, match=r"Cannot read .*: Is a directory"):
        read_text(tmp_path)
    (tmp_path / "latin.txt").write_bytes("café".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin.txt is not UTF-8 text .*Save it as UTF-8"):
        read_text(tmp_path / "latin.txt")


def test_lines_in_any_encoding_and_with_any_line_end(tmp_path):
    path = tmp_path / "tags.txt"
    for content in (
        b"\xef\xbb\xbf\xc3\xa9t\xc3\xa9\r\n\r\nb \r\n",
        b"\xe9t\xe9\n\nb",
        "été\r\rb\r".encode(),
    ):
        path.write_bytes(content)
        assert read_lines(path) == ["été", "", "b"]
    path.write_bytes("a\u2028b\x85".encode())  # not line ends
    assert read_lines(path) == ["a\u2028b"]
    with pytest.raises(InputError, match="Cannot read"):
        read_lines(tmp_path)


def test_cache_must_not_be_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(InputError, match="Cannot cache in .*file: it is a file"),
        caching_in(tmp_path / "file"),
    ):
        pass


def test_suffix_of_a_file_to_write_is_checked():
    check_suffix("folder/sheet.JPG", [".jpg", ".png"], "a sheet")
    with pytest.raises(
        InputError, match=r"^The name of a sheet must end in \.jpg or \.png, got 'sheet'\.$"
    ):
        check_suffix("folder/sheet", [".jpg", ".png"], "a sheet")
