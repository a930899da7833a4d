"""Queries are split over threads without loss, repetition or swallowed errors."""

from __future__ import annotations

import threading

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


def test_slices_hold_at_least_so_many_queries_save_the_last():
    slices = []
    split_over_threads(lambda start, stop: slices.append((start, stop)), 130, 2, at_least=64)
    assert sorted(slices) == [(0, 64), (64, 128), (128, 130)]


def test_one_thread_works_in_the_calling_thread():
    workers = []
    split_over_threads(lambda start, stop: workers.append(threading.get_ident()), 100, 1)
    assert workers == [threading.get_ident()]


def test_an_error_in_a_slice_is_raised():
    def work(start, stop):
        if start > 0:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        split_over_threads(work, 100, 3)


def test_none_means_all_cores_and_less_than_one_is_refused():
    assert n_threads(None) >= 1
    assert n_threads(3) == 3
    with pytest.raises(InputError, match="at least 1"):
        n_threads(0)
