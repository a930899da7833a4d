"""MATLAB files: the arrays that SciPy reads, and errors instead of crashes for damaged files."""

import random
from contextlib import suppress

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import loadmat, savemat

from corrhash.datasets.formats.arrays import UNREADABLE_ARRAYS
from corrhash.datasets.formats.matlab import read_matlab

ARRAYS = {
    "doubles": np.random.default_rng(0).standard_normal((3, 4)),
    "small": np.arange(3),
    "bytes": np.arange(24, dtype=np.uint8).reshape(2, 3, 4),
    "long": np.array([[2**40, -1]]),
    "truth": np.array([[True, False]]),
    "sparse": sp.csc_array(np.eye(4) * [1, 0, 2, 0]),
    "a_name_that_is_longer_than_eight_bytes": np.float32([[1.5]]),
}


@pytest.mark.parametrize("how", [{"format": "5"}, {"do_compression": True}])
def test_arrays_are_those_of_scipy(tmp_path, how):
    others = {"text": "words", "cells": np.array([[1, "a"]], dtype=object), "complex": [[1j]]}
    savemat(tmp_path / "a.mat", {**ARRAYS, **others}, **how)
    expected, found = loadmat(tmp_path / "a.mat"), dict(read_matlab(tmp_path / "a.mat"))
    assert set(found) == set(ARRAYS)
    for name, array in found.items():
        if sp.issparse(array):
            array, expected[name] = array.toarray(), expected[name].toarray()
        np.testing.assert_array_equal(array, expected[name])
        assert array.shape == expected[name].shape


def test_version_4_and_big_endian_files_are_read(tmp_path):
    savemat(tmp_path / "a.mat", {"x": ARRAYS["doubles"]}, format="4")
    np.testing.assert_array_equal(dict(read_matlab(tmp_path / "a.mat"))["x"], ARRAYS["doubles"])
    numbers = lambda *values: b"".join(value.to_bytes(4, "big") for value in values)  # noqa: E731
    element = numbers(6, 8, 9, 0) + numbers(5, 8, 1, 2) + numbers(1 << 16 | 1) + b"x\0\0\0"
    element += numbers(2 << 16 | 2) + b"\7\10\0\0"
    content = b"MATLAB 5.0".ljust(124) + b"\1\0MI" + numbers(14, len(element)) + element
    (tmp_path / "b.mat").write_bytes(content)
    np.testing.assert_array_equal(dict(read_matlab(tmp_path / "b.mat"))["x"], [[7, 8]])


def test_damaged_files_do_not_crash(tmp_path):
    savemat(tmp_path / "a.mat", ARRAYS)
    whole, rng = (tmp_path / "a.mat").read_bytes(), random.Random(0)
    n_errors = 0
    for _ in range(400):
        content = bytearray(whole)
        for _ in range(rng.choice([1, 3, 10])):
            content[rng.randrange(4, len(content))] = rng.randrange(256)
        (tmp_path / "b.mat").write_bytes(bytes(content))
        with suppress(*UNREADABLE_ARRAYS):
            n_errors += 1
            dict(read_matlab(tmp_path / "b.mat"))
            n_errors -= 1
    assert n_errors > 50
