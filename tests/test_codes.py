"""Codes: packing, distances, files and input checks."""

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corrhash import Codes, InputError
from corrhash.codes import load_codes, save_codes


def random_signs(n, n_bits, seed=0):
    return np.random.default_rng(seed).choice(np.array([-1, 1], dtype=np.int8), (n, n_bits))


@given(st.integers(0, 20), st.integers(1, 1024), st.integers(0, 99))
def test_signs_survive_packing(n, n_bits, seed):
    signs = random_signs(n, n_bits, seed)
    codes = Codes.from_signs(signs)
    assert codes.packed.shape == (n, (n_bits + 7) // 8)
    np.testing.assert_array_equal(codes.signs(), signs)


@given(st.integers(1, 300), st.integers(0, 99))
def test_hamming_distance_counts_differing_signs(n_bits, seed):
    first, second = random_signs(7, n_bits, seed), random_signs(5, n_bits, seed + 1)
    differing = (first[:, None, :] != second[None, :, :]).sum(axis=2)
    distances = Codes.from_signs(first).hamming(Codes.from_signs(second))
    np.testing.assert_array_equal(distances, differing)
    inner = first.astype(int) @ second.T.astype(int)
    np.testing.assert_array_equal(distances, (n_bits - inner) // 2)


def test_distance_to_itself_and_to_its_negative():
    signs = random_signs(4, 37)
    codes, negative = Codes.from_signs(signs), Codes.from_signs(-signs)
    np.testing.assert_array_equal(np.diag(codes.hamming(codes)), 0)
    np.testing.assert_array_equal(np.diag(codes.hamming(negative)), 37)
    np.testing.assert_array_equal(codes.hamming(negative), codes.hamming(negative).T)


def test_zero_gives_minus_one():
    signs = Codes.from_continuous([[0.0, -0.0, 1e-300, -1e-300]]).signs()
    np.testing.assert_array_equal(signs, [[-1, -1, 1, -1]])


@pytest.mark.parametrize("n_bits", [1, 8, 63, 64, 65, 128, 200, 1024])
def test_planes_hold_the_bits_of_each_word(n_bits):
    signs = random_signs(3, n_bits)
    planes = Codes.from_signs(signs).planes()
    assert planes.shape == (-(-n_bits // 64), 3)
    assert planes.flags.c_contiguous
    for bit in range(n_bits):
        word = planes[bit // 64] >> np.uint64(bit % 64) & np.uint64(1)
        np.testing.assert_array_equal(word, signs[:, bit] > 0)


def test_planes_of_64_bits_are_not_copied():
    codes = Codes.from_signs(random_signs(3, 64))
    assert np.shares_memory(codes.planes(), codes.packed)


def test_indexing_returns_codes():
    signs = random_signs(6, 20)
    codes = Codes.from_signs(signs)
    for rows in (slice(1, 4), [4, 0], np.array([True, False] * 3), -1):
        picked = codes[rows]
        assert isinstance(picked, Codes)
        np.testing.assert_array_equal(picked.signs(), np.atleast_2d(signs[rows]))
    with pytest.raises(IndexError, match="There are 6 codes"):
        codes[6]


def test_codes_are_read_only():
    codes = Codes.from_signs(random_signs(2, 9))
    with pytest.raises(ValueError, match="read-only"):
        codes.packed[0, 0] = 1
    with pytest.raises(AttributeError):
        codes.n_bits = 3


def test_codes_copy_writable_bytes():
    packed = np.zeros((2, 1), np.uint8)
    codes = Codes(packed, 3)
    packed[:] = 255
    assert codes.hamming(codes).max() == 0


def test_indexing_bits_raises():
    with pytest.raises(IndexError, match="indexed by row only"):
        Codes.from_signs([[1, 1]])[:, ::-1]


def test_a_corrupt_file_raises_input_error(tmp_path):
    path = tmp_path / "codes.npz"
    codes = Codes.from_signs(random_signs(5, 64))
    codes.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(whole), 150):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 64]) + whole[place + 1 :])
        with contextlib.suppress(InputError):  # any other error fails the test
            Codes.load(path)


def test_the_number_of_keys_must_match(tmp_path):
    save_codes(tmp_path / "codes.npz", {"codes": Codes.from_signs([[1]])}, keys=["a", "b"])
    with pytest.raises(InputError, match="2 keys do not match"):
        Codes.load(tmp_path / "codes.npz")


def test_distinct_codes_are_counted():
    assert Codes.from_signs([[1, 1], [1, -1], [1, 1]]).n_distinct() == 2
    assert Codes.from_signs(np.empty((0, 5))).n_distinct() == 0


def test_save_and_load(tmp_path):
    codes = Codes.from_signs(random_signs(11, 21))
    codes.save(tmp_path / "codes.npz")
    again = Codes.load(tmp_path / "codes.npz")
    assert again.n_bits == 21
    np.testing.assert_array_equal(again.packed, codes.packed)
    assert [path.name for path in tmp_path.iterdir()] == ["codes.npz"]


def test_save_and_load_several_sets_with_keys(tmp_path):
    sets = {"image": Codes.from_signs([[1, 1]]), "text": Codes.from_signs([[1, -1]])}
    save_codes(tmp_path / "both.npz", sets, keys=["im1"])
    again, keys = load_codes(tmp_path / "both.npz")
    assert keys.tolist() == ["im1"]
    np.testing.assert_array_equal(again["text"].signs(), [[1, -1]])
    with pytest.raises(InputError, match="several sets of codes: image, text"):
        Codes.load(tmp_path / "both.npz")


@pytest.mark.parametrize("keep", [0, 1, 30, 0.5, 0.99])
def test_a_truncated_file_raises(tmp_path, keep):
    path = tmp_path / "codes.npz"
    Codes.from_signs(random_signs(50, 64)).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: keep if isinstance(keep, int) else int(len(whole) * keep)])
    with pytest.raises(InputError, match="not a valid file of codes"):
        Codes.load(path)


def test_foreign_and_missing_files_raise(tmp_path):
    np.savez(tmp_path / "other.npz", weights=np.ones(3))
    np.save(tmp_path / "array.npy", np.ones(3))
    (tmp_path / "text.npz").write_text("hello")
    for name in ("other.npz", "array.npy", "text.npz"):
        with pytest.raises(InputError, match="not a valid file of codes"):
            Codes.load(tmp_path / name)
    with pytest.raises(InputError, match=r"File not found: .*nowhere\.npz"):
        Codes.load(tmp_path / "nowhere.npz")


def test_saving_into_a_missing_folder_raises(tmp_path):
    with pytest.raises(InputError, match=r"Cannot write .*nowhere"):
        Codes.from_signs([[1]]).save(tmp_path / "nowhere" / "codes.npz")


@pytest.mark.parametrize(
    ("continuous", "message"),
    [
        ([[1.0, np.nan]], r"must be finite, got nan at row 0, bit 1 \(1 such"),
        ([[1.0], [-np.inf]], "got -inf at row 1, bit 0"),
        ([1.0, 2.0], r"got shape \(2,\).*Pass a single item as x\[None, :\]"),
        ([["a"]], "array of numbers"),
        (np.empty((3, 0)), "between 1 and 1024, got 0"),
        (np.ones((1, 1025)), "between 1 and 1024, got 1025"),
    ],
)
def test_invalid_continuous_codes_raise(continuous, message):
    with pytest.raises(InputError, match=message):
        Codes.from_continuous(continuous)


def test_a_sign_of_zero_raises():
    with pytest.raises(InputError, match=r"got 0 at row 0, bit 1.*from_continuous"):
        Codes.from_signs([[1, 0]])


@pytest.mark.parametrize("n_bits", [0, 1025, 2.5, "64", True])
def test_invalid_code_lengths_raise(n_bits):
    with pytest.raises(InputError, match="n_bits must be"):
        Codes(np.zeros((1, 8), np.uint8), n_bits)


def test_packed_bytes_must_match_the_code_length():
    with pytest.raises(InputError, match=r"\(n, 2\) array of uint8, got shape \(1, 1\)"):
        Codes(np.zeros((1, 1), np.uint8), 12)
    with pytest.raises(InputError, match="after bit 4 must be zero"):
        Codes(np.full((1, 1), 255, np.uint8), 4)


def test_comparing_different_code_lengths_raises():
    with pytest.raises(InputError, match="got 2 and 3 bits"):
        Codes.from_signs([[1, 1]]).hamming(Codes.from_signs([[1, 1, 1]]))


@pytest.mark.parametrize("n_bits", [1, 12, 64, 65, 300])
@pytest.mark.parametrize("n", [0, 5])
def test_planes_round_trip(n_bits, n):
    codes = Codes.from_continuous(np.random.default_rng(0).standard_normal((n, n_bits)))
    again = Codes.from_planes(codes.planes(), n_bits)
    np.testing.assert_array_equal(again.packed, codes.packed)


def test_codes_are_written_in_hexadecimal_digits():
    assert Codes.from_hex(["01f3"], 16).hex() == ["01f3"]
    three = Codes(np.array([[1, 2], [0xAB, 0], [0xFF, 0x0F]], np.uint8), 12)
    assert three.hex() == ["0102", "ab00", "ff0f"]
    with pytest.raises(InputError, match="A code of 16 bits must have 4 hexadecimal digits, got 3"):
        Codes.from_hex(["01f"], 16)
    with pytest.raises(InputError, match="hexadecimal digits only, got '01xy'"):
        Codes.from_hex(["01xy"], 16)
