"""split_over_threads: each query once, errors raised, helpers reused."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash.errors import InputError
from corrhash.kernels.threads import n_threads, split_over_threads


@given(n_queries=st.integers(1, 200), threads=st.integers(1, 5), at_least=st.integers(1, 40))
def test_every_query_is_in_exactly_one_slice(n_queries, threads, at_least):
    seen = np.zeros(n_queries, int)

    def work(start, stop):
        seen[start:stop] += 1

    split_over_threads(work, n_queries, threads, at_least)
    assert (seen == 1).all()


def test_slices_have_a_minimum_size():
    slices = []
    split_over_threads(lambda start, stop: slices.append((start, stop)), 130, 2, at_least=64)
    assert sorted(slices) == [(0, 64), (64, 128), (128, 130)]


def test_one_thread_is_the_calling_thread():
    workers = []
    split_over_threads(lambda start, stop: workers.append(threading.get_ident()), 100, 1)
    assert workers == [threading.get_ident()]


def test_error_in_a_slice_is_raised():
    def work(start, stop):
        if start > 0:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        split_over_threads(work, 100, 3)


def test_error_is_raised_after_all_threads_end():
    started, finished = threading.Event(), []

    def work(start, stop):
        if threading.current_thread() is threading.main_thread():
            started.wait(10)
            raise ZeroDivisionError
        started.set()
        time.sleep(0.05)
        finished.append(start)

    with pytest.raises(ZeroDivisionError):
        split_over_threads(work, 2, 2)
    assert len(finished) == 1


def test_splits_can_be_nested():
    seen = np.zeros((40, 40), int)

    def outer(start, stop):
        def inner(first, last):
            seen[start:stop, first:last] += 1

        split_over_threads(inner, 40, 3)

    split_over_threads(outer, 40, 3)
    assert (seen == 1).all()


def test_several_threads_can_split_at_once():
    seen = np.zeros((20, 100), int)

    def ask(number):
        def work(start, stop):
            seen[number, start:stop] += 1

        split_over_threads(work, 100, 4)

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(ask, range(20)))
    assert (seen == 1).all()


def test_helpers_are_reused():
    def n_helpers():
        return sum("corrhash" in thread.name for thread in threading.enumerate())

    before = n_helpers()
    for _ in range(100):
        split_over_threads(lambda start, stop: None, 2, 2)
    # A helper may not be idle again when the next call needs one.
    assert 1 <= n_helpers() < before + 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forked_process_starts_its_own_helpers():
    split_over_threads(lambda start, stop: time.sleep(0.01), 2, 2)
    child = os.fork()
    if child == 0:
        seen = []
        split_over_threads(lambda start, stop: (time.sleep(0.01), seen.append(start)), 4, 2)
        os._exit(0 if sorted(seen) == [0, 1, 2, 3] else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_number_of_threads_is_checked():
    assert n_threads(None) >= 1
    assert n_threads(3) == 3
    with pytest.raises(InputError, match="at least 1"):
        n_threads(0)
