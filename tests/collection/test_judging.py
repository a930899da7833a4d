"""Relevance judgments: stored in every engine, replaced, withdrawn, exported and imported."""

import json
import re

import numpy as np
import pytest

from corrhash import InputError, StorageError
from corrhash.collection import Collection, Judgment
from corrhash.collection.judging import numbered_judgments
from corrhash.collection.judgment_files import read_judgment_file, write_judgments
from corrhash.collection.repairing import repair
from corrhash.datasets import load_dataset, supervise
from corrhash.errors import NotFoundError


def verdicts(collection):
    return {(one.query, one.item): one.verdict for one in collection.judgments()}


def test_latest_judgment_of_a_query_and_item_holds(uri, world):
    collection = Collection.create(uri, world.model)
    collection.add(world.records(range(4)))
    collection.judge("boat", item="scene 1", fits=True)
    collection.judge("boat", item="scene 2", fits=False)
    collection.judge(key="scene 0", item="scene 1", fits=True)
    assert verdicts(collection) == {
        **{("boat", "scene 1"): 1, ("boat", "scene 2"): -1},
        ("scene 0", "scene 1"): 1,
    }
    collection.judge("boat", item="scene 1", fits=None)
    collection.judge("boat", item="scene 2", fits=True)
    assert verdicts(collection) == {("boat", "scene 2"): 1, ("scene 0", "scene 1"): 1}
    assert len(collection.index.records("judgment")) == 5


def test_image_query_keeps_its_features(filled, world):
    filled.judge(image=world.paths[3], item="scene 4", fits=True)
    filled.judge(image=world.scenes.images[3], item="scene 4", fits=False)  # the same pixels
    (one,) = filled.judgments()
    features = world.reader.read_images([world.scenes.images[3]])[0]
    np.testing.assert_allclose(one.vector, features, rtol=1e-2, atol=1e-3)
    assert one.verdict == -1


@pytest.mark.parametrize(
    ("query", "more", "message"),
    [
        ({}, {}, "exactly one"),
        ({"text": ["a", "b"]}, {}, "one query"),
        ({"text": "boat"}, {"item": "nothing"}, "No item with the key 'nothing'"),
        ({"key": "nothing"}, {}, "No item with the key 'nothing'"),
        ({"key": "scene 1"}, {}, "itself"),
        ({"text": "boat"}, {"fits": 1}, "True, False or None"),
        ({"text": "boat"}, {"find": "audio"}, "find must be"),
        ({"text": " "}, {}, "must be a non-empty string"),
        ({"text": "a" * 10_001}, {}, "10,000"),
        ({"text": "a\ud800"}, {}, "without NUL characters or lone surrogates"),
        ({"image": np.zeros(3)}, {}, "3"),
        ({"image": np.array(["a", "b"])}, {}, "must be numbers"),
    ],
)
def test_wrong_judgments_are_refused(filled, query, more, message):
    with pytest.raises(InputError, match=message):
        filled.judge(**{"item": "scene 1", "fits": True, **query, **more})
    assert filled.judgments() == []


def test_feature_vectors_of_any_type_are_one_query(filled, world):
    vector = world.reader.read_images([world.scenes.images[3]])[0]
    filled.judge(image=vector.astype(np.float64), item="scene 4", fits=True)
    filled.judge(image=vector.astype(np.float32), item="scene 4", fits=None)
    assert filled.judgments() == []
    with pytest.raises(InputError, match="between -65,504 and 65,504, got 1000"):
        filled.judge(image=vector + 1e5, item="scene 4", fits=True)


def test_repeated_judgment_keeps_its_number():
    def record(item, verdict):
        return Judgment("text", "boat", item, verdict).record()

    records = [record("a", 1), record("b", 1), record("a", 1), record("b", -1), record("c", 0)]
    found = [(number, one.item, one.verdict) for number, one in numbered_judgments(records)]
    assert found == [(0, "a", 1), (3, "b", -1)]


def test_copy_and_repair_keep_judgments(filled, tmp_path):
    for row in range(5):
        filled.judge("boat", item=f"scene {row}", fits=row % 2 == 0)
    filled.index.describe(judged=4)  # an improvement was trained on them
    copy = filled.copy_to(tmp_path / "copy")
    assert filled.copy_to(tmp_path / "copy").judgments() == filled.judgments()
    assert copy.judgments() == filled.judgments()
    repaired = repair(tmp_path / "copy", tmp_path / "new")
    assert repaired.problems == []
    assert repaired.collection.judgments() == filled.judgments()
    assert copy.index.about["judged"] == repaired.collection.index.about["judged"] == 4


def test_damaged_judgments_are_noticed_and_the_others_repaired(filled, tmp_path):
    for row in range(3):
        filled.judge("boat", item=f"scene {row}", fits=True)
    with filled.index._reading() as connection:
        sql = "UPDATE records SET content = replace(content, '1', '9') WHERE number = 1"
        connection.execute(sql)
    with pytest.raises(StorageError, match="'records'"):
        filled.judgments()
    with pytest.raises(StorageError, match="row 1 of records is damaged"):
        filled.index.verify()
    repaired = repair(filled.uri, tmp_path / "new")
    assert repaired.problems == ["Record 1 is damaged."]
    assert [one.item for one in repaired.collection.judgments()] == ["scene 0", "scene 2"]


def test_missing_judgments_are_noticed(filled):
    filled.judge("boat", item="scene 0", fits=True)
    with filled.index._reading() as connection:
        connection.execute("DELETE FROM records")
    with pytest.raises(StorageError, match="0 rows instead of 1"):
        filled.judgments()
    with pytest.raises(StorageError, match="0 rows instead of 1"):
        filled.index.verify()


def test_json_lines_hold_all_judgments(filled, world, tmp_path):
    filled.judge("boat", item="scene 0", fits=True)
    filled.judge(image=world.paths[3], item="scene 4", fits=False)
    filled.judge(key="scene 5", item="scene 4", fits=False, find="text")
    path = tmp_path / "judgments.jsonl"
    assert write_judgments(path, filled.judgments(), filled.index) == 3
    assert read_judgment_file(path, filled.index).judgments == filled.judgments()


def test_table_of_judgments_is_read_by_supervision(tmp_path, world):
    split = load_dataset("synthetic", n=600)
    train = split.train
    collection = Collection.create("memory:", world.model)
    texts = [f"sea {key}" for key in train.keys[:3]]
    collection.add({"key": k, "text": t} for k, t in zip(train.keys[:3], texts, strict=True))
    collection.judge(texts[1], item=train.keys[0], fits=True)  # the text of another item
    collection.judge(key=train.keys[1], item=train.keys[2], fits=False)
    collection.judge("some words", item=train.keys[0], fits=True)
    path = tmp_path / "judgments.csv"
    assert write_judgments(path, collection.judgments(), collection.index) == 2
    similarity = supervise(split, path).train.similarity
    assert similarity.block([0, 2], [1]).tolist() == [[1], [-1]]
    assert similarity.n_judged == 2
    back = read_judgment_file(path, collection.index).judgments
    assert [(one.query, one.item, one.verdict) for one in back] == [
        (texts[1], train.keys[0], 1),
        (texts[1], train.keys[2], -1),
    ]


def test_key_of_an_item_without_a_text_is_a_query_by_key(filled, world, tmp_path):
    filled.add([{"key": "silent", "image": world.paths[9]}])
    path = tmp_path / "judgments.csv"
    path.write_text("scene 1,silent,1\nscene 1,scene 2,-1\nscene 1,sea,1\n")
    found = read_judgment_file(path, filled.index).judgments
    assert [(one.kind, one.query) for one in found] == [
        ("key", "silent"),
        ("text", filled.get("scene 2").text),
        ("text", "sea"),
    ]


LOG = """query,item,clicked,time
boat,scene 0,0,2026-05-01T12:00:00
boat,scene 1,1,2026-05-01T12:00:00
boat,scene 2,0,2026-05-01T12:00:00
boat,scene 3,1,2026-05-01T12:00:00
boat,scene 4,0,2026-05-01T12:00:00
tree,scene 5,0,2026-05-01T12:05:00
tree,gone,1,2026-05-01T12:05:00
"""


def test_click_log_judges_what_was_seen(filled, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text(LOG)
    found = read_judgment_file(path, filled.index)
    assert [(one.query, one.item, one.verdict) for one in found.judgments] == [
        *(("boat", f"scene {row}", (-1, 1)[row % 2]) for row in range(4)),
        ("tree", "scene 5", -1),
    ]
    assert found.n_unknown == 1
    assert found.judgments[0].time == "2026-05-01T12:00:00"
    lines = tmp_path / "log.jsonl"
    shown = [f"scene {row}" for row in range(5)]
    lines.write_text(
        json.dumps({"query": "boat", "shown": shown, "clicked": ["scene 1", "scene 3"]})
    )
    same = read_judgment_file(lines, filled.index).judgments
    assert [one.subject for one in same] == [one.subject for one in found.judgments[:4]]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "", "no judgments"),
        ("a.csv", "a,b\n", "Line 1 of .* is not a judgment"),
        ("a.csv", "image,text,similar\na,b,2\n", "Line 2 of .* is not a judgment"),
        ("a.csv", "query,item,clicked\nboat,scene 1,yes\n", "0 or 1 in the column clicked"),
        ("a.csv", "query,item,clicked,time\nboat,scene 1,1,May\n", "ISO date"),
        ("a.csv", "query,item,clicked\n" + "a" * 200_000 + ",b,1\n", "Cannot read line 2 of"),
        ("a.jsonl", "[1]\n", "Line 1 of .* is neither"),
        ("a.jsonl", '{"query": "a", "shown": ["b"], "clicked": "b"}\n', "must be a list of keys"),
        ("a.jsonl", '{"query": "a", "shown": ["b"], "clicked": ["c"]}\n', "clicked but not shown"),
        ("a.jsonl", '{"query": "a", "shown": ["scene 1"]}\n', "Line 1 of .* is neither"),
        ("a.jsonl", '{"kind": "text", "query": "a", "item": "b", "verdict": 3}\n', "Line 1"),
        ("a.txt", "", "must end in"),
    ],
)
def test_wrong_files_are_refused(filled, tmp_path, name, content, message):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=message):
        read_judgment_file(tmp_path / name, filled.index)


def test_judgment_has_a_time_in_utc():
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\+00:00", Judgment("text", "a", "b", 1).time)


def test_unknown_item_among_several_stores_nothing(filled):
    with pytest.raises(NotFoundError):
        filled.add_judgments([Judgment("text", "a", "scene 1", 1), Judgment("text", "a", "b", 1)])
    assert filled.judgments() == []
