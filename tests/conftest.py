"""Settings of every test."""

import pytest


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nothing that a test computes enters the cache of whoever runs it."""
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
