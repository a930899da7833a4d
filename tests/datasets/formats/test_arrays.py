"""Arrays of features, as hashing papers share them."""

import sys

import h5py
import numpy as np
import pytest
import scipy.sparse as sp
from scipy.io import savemat

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.datasets.formats.arrays import load, read

RNG = np.random.default_rng(0)
N = {"tr": 12, "te": 5, "db": 20}
ARRAYS = {
    **{f"I_{part}": RNG.normal(size=(n, 4)) for part, n in N.items()},
    **{f"T_{part}": (RNG.random((n, 3)) < 0.5).astype(np.uint8) for part, n in N.items()},
    **{f"L_{part}": np.eye(3, dtype=np.uint8)[np.arange(n) % 3] for part, n in N.items()},
}
SPLIT = {name: array for name, array in ARRAYS.items() if not name.endswith("_db")}


def save_v73(path, arrays):
    """As MATLAB writes version 7.3: transposed in HDF5, sparse ones as groups."""
    with h5py.File(path, "w", userblock_size=512) as file:
        for name, array in arrays.items():
            if sp.issparse(array):
                group = file.create_group(name)
                group.attrs["MATLAB_sparse"] = np.uint64(array.shape[0])
                csc = sp.csc_array(array)
                for part, values in (("data", csc.data), ("ir", csc.indices), ("jc", csc.indptr)):
                    group[part] = values
            else:
                file[name] = array.T
    with path.open("r+b") as file:
        header = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
        file.write(header)


WRITERS = {
    "npz": lambda path, arrays: np.savez(path, **arrays),
    "mat": savemat,
    "v7.3.mat": save_v73,
}


@pytest.mark.parametrize("kind", WRITERS)
def test_every_kind_of_file_gives_the_same_pairs(tmp_path, kind):
    path = tmp_path / f"wiki.{kind}"
    WRITERS[kind](path, SPLIT)
    split = load(path)
    np.testing.assert_array_equal(split.train.images, ARRAYS["I_tr"])
    np.testing.assert_array_equal(split.query.texts, ARRAYS["T_te"])
    np.testing.assert_array_equal(split.query.labels.toarray(), ARRAYS["L_te"])
    assert split.database.row_keys() == split.train.row_keys()
    assert len(split.validation_rows) == 0


def test_sparse_arrays_stay_sparse(tmp_path):
    sparse = {**SPLIT, "T_tr": sp.csc_array(SPLIT["T_tr"]), "T_te": sp.csc_array(SPLIT["T_te"])}
    for kind in ("mat", "v7.3.mat"):
        WRITERS[kind](tmp_path / f"a.{kind}", sparse)
        texts = load(tmp_path / f"a.{kind}").query.texts
        np.testing.assert_array_equal(texts.toarray(), SPLIT["T_te"])


def test_npy_files_of_a_folder_are_read_together(tmp_path):
    for name in ("IAll", "YAll", "LAll"):
        np.save(tmp_path / f"{name}.npy", RNG.random((40, 3)) < 0.7)
    split = load_dataset(tmp_path)
    assert [len(split.query_rows), len(split.validation_rows)] == [4, 4]
    assert split.name == tmp_path.name


def test_training_items_are_in_the_database_once(tmp_path):
    arrays = dict(ARRAYS)
    rows = np.array([3, 1, 17, 8, 9, 10, 11, 2, 0, 5, 6, 7])
    for modality in "ITL":
        arrays[f"{modality}_tr"] = arrays[f"{modality}_db"][rows]
    np.savez(tmp_path / "a.npz", **arrays)
    split = load(tmp_path / "a.npz")
    assert len(split.pairs) == 25
    np.testing.assert_array_equal(split.train_rows, rows)
    np.testing.assert_array_equal(split.train.images, arrays["I_tr"])
    assert len(split.database_rows) == 20
    np.savez(tmp_path / "b.npz", **ARRAYS)  # training items are not in the database
    assert len(load(tmp_path / "b.npz").pairs) == 37


def test_arrays_are_named_and_labels_can_be_class_numbers(tmp_path):
    savemat(
        tmp_path / "a.mat",
        {"x": ARRAYS["I_db"], "y": ARRAYS["T_db"], "c": np.arange(20)[:, None] % 4 + 1},
    )
    split = load_dataset(tmp_path / "a.mat", whole="x y c", n_query=4)
    assert split.pairs.labels.shape == (20, 4)
    assert len(split.query_rows) == 4
    pairs = load(tmp_path / "a.mat", train="x y c", query="x y c").pairs
    assert len(pairs) == 40
    assert load(tmp_path / "a.mat", train="x y", query="x y").pairs.labels is None


@pytest.mark.parametrize(
    "classes",
    [
        {"tr": [1, 2, 3], "te": [2, 3, 4]},
        {"tr": [0, 1, 2], "te": [0, 1]},
        {"tr": [0, 1, 2], "te": [3, 1], "db": [0, 1]},
        {"tr": [0, 1], "te": [0, 1]},
    ],
    ids=["others", "only 0 and 1 in a part", "with a database", "one label"],
)
def test_a_class_number_means_the_same_in_every_part(tmp_path, classes):
    numbers = {part: np.resize(of, N[part]) for part, of in classes.items()}
    arrays = {name: array for name, array in ARRAYS.items() if name[2:] in classes}
    arrays |= {f"L_{part}": of for part, of in numbers.items()}
    np.savez(tmp_path / "a.npz", **arrays)
    split = load(tmp_path / "a.npz")
    known = np.concatenate([numbers[part] for part in ("db", "tr", "te") if part in numbers])
    alike = known[:, None] == known[None]
    if known.max() == 1:  # one label that items have or not
        alike &= known[:, None] == 1
    table = split.pairs.labels.toarray().astype(int)
    np.testing.assert_array_equal(table @ table.T > 0, alike)


def test_channels_first_images_become_channels_last(tmp_path):
    pixels = RNG.integers(0, 256, (20, 3, 8, 9), dtype=np.uint8)
    np.savez(tmp_path / "a.npz", images=pixels, texts=ARRAYS["T_db"], labels=ARRAYS["L_db"])
    assert load(tmp_path / "a.npz").pairs.images.shape == (20, 8, 9, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"it contains: b, i, t. Name the image, text and label arrays: --data train="),
        ({"whole": "i t"}, None),
        ({"whole": "i"}, "Expected the names of two or three arrays"),
        ({"whole": "i t l"}, r"no array 'l'. It has: b, i, t"),
        ({"train": "i t", "query": "b t"}, "same number of image features, got 4 and 5"),
    ],
)
def test_mistakes_are_explained(tmp_path, options, message):
    np.savez(tmp_path / "a.npz", i=np.ones((20, 4)), t=np.ones((20, 3)), b=np.ones((20, 5)))
    if message is None:
        assert len(load(tmp_path / "a.npz", **options).pairs) == 20
        return
    with pytest.raises(InputError, match=message):
        load(tmp_path / "a.npz", **options)


def test_arrays_to_index_are_recognized_after_renaming(tmp_path):
    """``corrhash index`` has no option for names of arrays."""
    np.savez(tmp_path / "a.npz", i=np.ones((20, 4)), t=np.ones((20, 3)))
    with pytest.raises(InputError, match=r"it contains: i, t. Save them under") as raised:
        read(tmp_path / "a.npz")
    assert "--data" not in str(raised.value)
    np.savez(tmp_path / "a.npz", images=np.ones((20, 4)), texts=np.ones((20, 3)))
    assert read(tmp_path / "a.npz").total == 20


def test_damaged_and_pickled_files_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", images=np.array([{}, {}], dtype=object))
    (tmp_path / "b.mat").write_bytes(b"MATLAB 5.0 MAT-file".ljust(126) + b"IM" + b"\x09" * 40)
    (tmp_path / "c.npz").write_text("<html>")
    for name in ("a.npz", "b.mat", "c.npz"):
        with pytest.raises(InputError, match=f"Cannot read .*{name}"):
            load(tmp_path / name)
    with pytest.raises(InputError, match="File not found"):
        load(tmp_path / "d.npz")


def test_a_missing_h5py_is_named(tmp_path, monkeypatch):
    save_v73(tmp_path / "a.mat", SPLIT)
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(
        InputError, match=r"Save the file with -v7, or install .*'corrhash\[hdf5\]'$"
    ):
        load(tmp_path / "a.mat")


def test_matlab_names_that_are_not_utf8_are_damage(tmp_path):
    h5py = pytest.importorskip("h5py")
    path = tmp_path / "a.mat"
    with h5py.File(path, "w", userblock_size=512) as file:
        file[b"\xff\xfe"] = np.ones((2, 2))
    content = bytearray(path.read_bytes())
    content[:128] = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    path.write_bytes(content)
    with pytest.raises(InputError, match="invalid name"):
        load_dataset(path)
