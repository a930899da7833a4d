"""Settings and fixtures of all tests."""

import pytest
from hypothesis import settings

# The time of one example depends on the machine more than on the code.
settings.register_profile("corrhash", deadline=None)
settings.load_profile("corrhash")


@pytest.fixture(autouse=True)
def private_cache(tmp_path_factory, monkeypatch):
    """Keep the files that tests cache out of the user's cache folder."""
    monkeypatch.setenv("CORRHASH_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))
