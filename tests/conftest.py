"""Settings of every test."""

import pytest
from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("corrhash", deadline=None)
settings.load_profile("corrhash")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Nothing that a test computes enters the cache of whoever runs it."""
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
