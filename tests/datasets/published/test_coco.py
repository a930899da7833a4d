"""MS-COCO in miniature, in the files of either year."""

import json

import pytest

from corrhash import InputError
from corrhash.datasets import load_dataset
from corrhash.datasets.fingerprint import split_fingerprint
from corrhash.datasets.published.coco import load
from tests.datasets.layouts import SMALL, coco


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return coco(tmp_path_factory.mktemp("coco"))


def test_images_with_objects_keep_captions_in_order(root):
    split = load(root, **SMALL)
    assert split.pairs.keys[:2] == ["000000000007", "000000000014"]
    assert len(split.pairs) == 72 - 8  # every tenth of both parts shows nothing
    first = " ".join(f"A thing number 1, caption {c}." for c in range(5))
    assert split.pairs.texts[0] == first
    assert load(root, captions="first", **SMALL).pairs.texts[0] == "A thing number 1, caption 0."
    carried = split.pairs.labels[[0]].indices
    assert [split.pairs.label_names[column] for column in carried] == ["thing 1", "thing 14"]
    assert split.pairs.labels.shape[1] == 80
    assert split.pairs.images.paths[0] == root / "train2017" / "000000000007.jpg"
    assert split.pairs.images.paths[-1].parent == root / "val2017"


def test_2014_files_give_the_same_split(root, tmp_path):
    older = load_dataset("coco", root=coco(tmp_path, year=2014), **SMALL)
    assert older.fingerprint == load_dataset("coco", root=root, **SMALL).fingerprint


def test_the_val_part_alone_is_loaded(tmp_path):
    coco(tmp_path, n=300, with_images=False)
    for kind in ("captions", "instances"):
        (tmp_path / "annotations" / f"{kind}_train2017.json").unlink()
    split = load(tmp_path, **SMALL)
    assert split.counts["images"] == 60
    assert len(split_fingerprint(split)) == 16


def test_missing_and_damaged_files_are_named(tmp_path):
    with pytest.raises(InputError, match=r"captions of val .*cocodataset.org"):
        load(tmp_path)
    coco(tmp_path, with_images=False)
    with pytest.raises(InputError, match="captions must be 'all' or 'first', got 'two'"):
        load(tmp_path, captions="two")
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_text(path.read_text()[:1000])
    with pytest.raises(InputError, match=r"Cannot read .*instances_val2017.json .*Unpack it again"):
        load(tmp_path, **SMALL)


N_IMAGES, N_KEPT = 123287, 122218


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """Annotations of as many images as COCO has, a caption and a thing for each."""
    root = tmp_path_factory.mktemp("full")
    (root / "annotations").mkdir()
    things = [
        {"id": number, "name": f"thing {number}", "supercategory": "s"} for number in range(80)
    ]
    for part, numbers in (("train", range(118287)), ("val", range(118287, N_IMAGES))):
        images = [{"id": k, "file_name": f"{k:012}.jpg"} for k in numbers]
        captions = [{"image_id": k, "id": k, "caption": f"word{k % 900}"} for k in numbers]
        shown = [{"image_id": k, "category_id": k % 80} for k in numbers if k < N_KEPT]
        for kind, entries in (("captions", captions), ("instances", shown)):
            content = {"images": images, "annotations": entries, "categories": things}
            (root / "annotations" / f"{kind}_{part}2017.json").write_text(json.dumps(content))
    return root


def test_full_files_give_the_published_sizes(full, caplog):
    split = load(full)
    assert split.counts == {"images": N_IMAGES, "categories": 80, "pairs": N_KEPT}
    parts = (split.query_rows, split.validation_rows, split.train_rows, split.database_rows)
    assert [len(rows) for rows in parts] == [5000, 1000, 10000, N_KEPT - 5000]
    assert "the published dataset has" not in caplog.text
