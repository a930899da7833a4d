"""open_index: addresses and the engines that answer for them."""

import pytest

from corrhash import InputError
from corrhash.index import open_index


def test_an_address_without_an_engine_is_refused_with_the_list():
    with pytest.raises(InputError, match=r"no engine for 'redis://x'.*memory:"):
        open_index("redis://x", 64)
