"""Files of features: a row for each item, or a sentence that tells what is wrong."""

import numpy as np
import pytest

from corrhash import InputError
from corrhash.datasets.feature_file import read_feature_file


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.uint8])
def test_arrays_of_any_numbers_become_float32(tmp_path, dtype):
    array = np.arange(12).reshape(4, 3).astype(dtype)
    np.save(tmp_path / "f.npy", array)
    np.savez(tmp_path / "f.npz", anything=array)
    for name in ("f.npy", "f.npz"):
        features = read_feature_file(tmp_path / name, 4)
        assert features.dtype == np.float32
        np.testing.assert_array_equal(features, array)


GOOD = np.ones((4, 3))
HOLES = GOOD.copy()
HOLES[2, 1] = np.nan


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (GOOD[:3], "f.npy has 3 rows, and the dataset 4 items. Row i belongs to item i"),
        (HOLES, "Row 2 of .*f.npy is not finite, as 1 of 4 rows are"),
        (GOOD * 1e300, "Row 0 of .*f.npy is not finite, as 4 of 4"),
        (GOOD[:, 0], r"shape \(4,\) and type float64. Give one of numbers"),
        (np.full((4, 3), "a"), "type <U1"),
        (np.full((4, 3), None), "cannot be read as features: Object arrays .*numpy.save"),
    ],
)
def test_what_does_not_fit_is_told(tmp_path, array, message):
    np.save(tmp_path / "f.npy", array)
    with pytest.raises(InputError, match=message):
        read_feature_file(tmp_path / "f.npy", 4)


def test_a_file_that_is_none_is_told(tmp_path):
    with pytest.raises(InputError, match=r"no file of features .*nowhere.npy"):
        read_feature_file(tmp_path / "nowhere.npy", 4)
    np.savez(tmp_path / "two.npz", a=GOOD, b=GOOD)
    with pytest.raises(InputError, match=r"two.npz holds 2 arrays \(a, b\), and one is wanted"):
        read_feature_file(tmp_path / "two.npz", 4)
    np.save(tmp_path / "cut.npy", GOOD)
    content = (tmp_path / "cut.npy").read_bytes()
    for name, part in (("cut.npy", content[:-5]), ("empty.npy", b""), ("page.npz", b"<html>")):
        (tmp_path / name).write_bytes(part)
        with pytest.raises(InputError, match=f"{name} cannot be read as features"):
            read_feature_file(tmp_path / name, 4)
