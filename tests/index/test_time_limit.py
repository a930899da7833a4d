"""Time limits: nesting, threads and messages."""

from threading import Thread

import pytest

from corrhash.index.time_limit import TimeLimitError, check_time, seconds_left, time_limit


def test_limit_applies_inside_the_block_only():
    with time_limit(60):
        assert 59 < seconds_left() <= 60
        with time_limit(30, elapsed=20):
            assert 9 < seconds_left() <= 10
        assert seconds_left() > 59
        check_time()
    assert seconds_left() is None
    check_time()


def test_passed_limit_raises():
    message = "The search took longer than 5 s. Use a filter with fewer comparisons"
    with pytest.raises(TimeLimitError, match=message), time_limit(5, elapsed=5):
        pytest.fail("the block must not be entered")
    assert seconds_left() is None


def test_other_threads_are_not_limited():
    seen = []
    with time_limit(60):
        thread = Thread(target=lambda: seen.append(seconds_left()))
        thread.start()
        thread.join()
    assert seen == [None]
