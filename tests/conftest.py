"""Settings and fixtures of all tests."""

import pytest
from hypothesis import settings

# The time of one example depends on the machine more than on the code.
settings.register_profile("corrhash", deadline=None)
settings.load_profile("corrhash")


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory, monkeypatch):
    """Keep the files of tests out of the user's cache folders, and tests off the network."""
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path_factory.getbasetemp() / "hub"))
    monkeypatch.setenv("CORRHASH_OFFLINE", "1")
