"""Collections of ready codes: without a model, and beside the codes of a model."""

import json

import numpy as np
import pytest

from corrhash import Codes, Collection, InputError, Record, save_codes
from corrhash.codes import load_codes
from corrhash.collection.source import open_source
from corrhash.datasets import Reader
from corrhash.service.search import SearchService

N_BITS = 40


@pytest.fixture(scope="module")
def codes():
    return Codes.from_continuous(np.random.default_rng(0).standard_normal((30, N_BITS)))


def records(codes, **more):
    return [
        {"key": f"item {row}", "image_code": code, "metadata": {"row": row}, **more}
        for row, code in enumerate(codes.hex())
    ]


def test_search_by_code_and_key_equals_hamming_distances(uri, codes):
    collection = Collection.create(uri, n_bits=N_BITS)
    assert collection.add(records(codes)).new == 30
    assert collection.add(records(codes)).unchanged == 30
    collection = Collection.open(uri) if uri != "memory:" else collection
    query = Codes.from_continuous(-np.random.default_rng(1).standard_normal((2, N_BITS)))
    found = collection.search(codes=query, k=30)
    for row, matches in enumerate(found):
        distances = query[[row]].hamming(codes)[0].tolist()
        assert [match.distance for match in matches] == sorted(distances)
        assert {(m.key, m.distance) for m in matches} == {
            (f"item {number}", distance) for number, distance in enumerate(distances)
        }
    like = collection.search(key="item 3", k=5, where="row < 20")
    others = np.delete(codes[[3]].hamming(codes)[0, :20], 3)
    assert [match.distance for match in like] == np.sort(others)[:5].tolist()
    assert collection.info()["method"] == "ReadyCodes"


def test_texts_and_images_cannot_be_searched(codes):
    collection = Collection.create("memory:", n_bits=N_BITS)
    collection.add(records(codes))
    with pytest.raises(InputError, match=r"ready codes and no model, so texts .* Search by key"):
        collection.search("boat")
    with pytest.raises(InputError, match="so images cannot be encoded"):
        collection.search(image=np.zeros((8, 8, 3), np.uint8))
    assert SearchService(collection, lambda n: None).warm_up() == []


def test_records_without_a_code_are_skipped(codes, world):
    collection = Collection.create("memory:", n_bits=N_BITS)
    added = collection.add([{"key": "a", "text": "boat"}, *records(codes, image=world.paths[0])])
    assert added.new == 30
    assert added.skipped["a"].startswith("It has no code, and the collection has no model")
    assert collection.get("item 3", ["thumbnail"]).thumbnail is not None
    with pytest.raises(InputError, match=r"image_code of 'b' has 16 bits, but .* have 40"):
        collection.add([{"key": "b", "image_code": "ab12"}])


def test_a_model_needs_no_ready_codes_and_accepts_them(world, codes):
    collection = Collection.create("memory:", world.model)
    given = Codes.from_continuous(np.random.default_rng(3).standard_normal((1, 24)))
    collection.add([{**world.record(0), "image_code": given}, world.record(1)])
    for row, expected in ((0, given), (1, world.codes("image")[[1]])):
        number = collection.ids_of([f"scene {row}"])[f"scene {row}"]
        assert collection.codes_of([number], "image")[number].hex() == expected.hex()
    assert len(collection.search("boat", find="text")) == 2


@pytest.mark.parametrize("given", [{}, {"n_bits": 8, "model": True}])
def test_either_a_model_or_a_length_is_needed(world, given):
    model = world.model if given.pop("model", None) else None
    with pytest.raises(InputError, match=r"Pass either the model .* got (neither|both)"):
        Collection.create("memory:", model, **given)


def test_copies_keep_ready_codes(codes, tmp_path):
    collection = Collection.create("memory:", n_bits=N_BITS)
    collection.add(records(codes))
    copy = collection.copy_to(tmp_path / "copy")
    opened = Collection.open(copy.uri)
    assert opened.search(codes=codes[[7]], k=1)[0][0].key == "item 7"


def test_duplicates_are_found_by_code_alone(codes):
    collection = Collection.create("memory:", n_bits=N_BITS)
    near = codes[[0, 1]].signs().copy()
    near[0, :3] *= -1
    near[1, :6] *= -1
    collection.add(records(codes))
    collection.add({"key": f"near {row}", "image_code": code} for row, code in enumerate(near))
    (group,) = collection.duplicates()  # up to 40 // 8 bits
    assert (group.keys, group.similarity) == (("item 0", "near 0"), None)
    assert [{*group.keys} for group in collection.duplicates(6)] == [
        {"item 0", "near 0"},
        {"item 1", "near 1"},
    ]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("01f3", "01f3"),
        (" 01F3 ", "01f3"),
        (np.array([1, -1, -1, 1, 1, 1, 1, 1]), "f9"),
        ([1, 0, 0, 1, 1, 1, 1, 1], "f9"),
        (np.array([0.3, -2.0, -0.1, 4, 4, 4, 4, 4.0]), "f9"),
    ],
)
def test_forms_of_a_ready_code(value, expected):
    assert Record("a", image_code=value).image_code.hex() == [expected]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("xyz1", "hexadecimal digits only, got 'xyz1'"),
        ("abc", "must have 4 hexadecimal digits, got 3"),
        ([1, 2, 3], "others than 0 and 1, such as 2"),
        (Codes.from_hex(["01", "02"], 8), "image_code of 'a' must be one code, got 2"),
    ],
)
def test_invalid_ready_codes_are_explained(value, message):
    with pytest.raises(InputError, match=message):
        Record("a", image_code=value)


def test_codes_are_read_from_tables_and_arrays(codes, tmp_path):
    lines = [{"key": f"item {row}", "image_code": code} for row, code in enumerate(codes.hex())]
    (tmp_path / "codes.jsonl").write_text("\n".join(map(json.dumps, lines)))
    rows = "\n".join(f"{one['key']},{one['image_code']}" for one in lines)
    (tmp_path / "codes.csv").write_text(f"key,image_code\n{rows}\n")
    keys = [one["key"] for one in lines]
    save_codes(tmp_path / "packed.npz", {"image": codes, "text": codes}, keys)
    np.savez(tmp_path / "signs.npz", codes=codes.signs(), ids=keys)
    for name in ("codes.jsonl", "codes.csv", "packed.npz", "signs.npz"):
        read = list(open_source(str(tmp_path / name), Reader(), codes=True).records)
        assert [one.key for one in read] == keys
        assert [one.image_code.hex()[0] for one in read] == codes.hex()
        assert (read[0].text_code is not None) == (name == "packed.npz")
    assert load_codes(tmp_path / "packed.npz")[0]["image"].hex() == codes.hex()


def test_files_without_codes_are_refused(tmp_path):
    np.savez(tmp_path / "other.npz", labels=np.zeros((3, 2)))
    with pytest.raises(InputError, match=r"has no codes; it contains: labels"):
        open_source(str(tmp_path / "other.npz"), Reader(), codes=True)
    np.savez(tmp_path / "few.npz", image=np.zeros((3, 8)), keys=["a"])
    with pytest.raises(InputError, match=r"has 3 codes, but keys has 1 rows"):
        open_source(str(tmp_path / "few.npz"), Reader(), codes=True)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="applies to tables and arrays only"):
        open_source(str(tmp_path / "folder"), Reader(), codes=True)
