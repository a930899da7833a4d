"""The cache folder: where users expect it, or where they say."""

from pathlib import Path

from corrhash.cache_folder import cache_folder, caching_in


def test_the_cache_is_in_the_users_cache_unless_the_environment_says_otherwise(
    tmp_path, monkeypatch
):
    monkeypatch.delenv("CORRHASH_CACHE", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "corrhash"
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path


def test_a_block_can_choose_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path))
    with caching_in(tmp_path / "a"):
        with caching_in(None):
            assert cache_folder() == tmp_path / "a"
        with caching_in(tmp_path / "b"):
            assert cache_folder() == tmp_path / "b"
    assert cache_folder() == tmp_path
