"""Shares of a source: each thing falls to one, whatever their number."""

import pytest

from corrhash import InputError
from corrhash.sources import Share


@pytest.mark.parametrize("n", [1, 2, 5, 12])
def test_shares_hold_everything_once(n):
    shares = [Share(number, n) for number in range(n)]
    dealt = [list(share.of(range(10))) for share in shares]
    assert sorted(thing for part in dealt for thing in part) == list(range(10))
    assert [share.size(10) for share in shares] == [len(part) for part in dealt]


def test_a_share_is_named_in_words_or_by_torchrun(monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    assert Share.of_environment() == Share()
    monkeypatch.setenv("RANK", "2")
    monkeypatch.setenv("WORLD_SIZE", "3")
    assert Share.of_environment() == Share.parse("2/3") == Share(2, 3)


@pytest.mark.parametrize("text", ["4/4", "1", "a/b", "-1/2", "0/0"])
def test_a_share_that_is_none_is_refused(text):
    with pytest.raises(InputError, match=f"the last is 3/4. Got '{text}'"):
        Share.parse(text)
