"""Commands that change items: update, delete, and index --prune."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from corrhash.cli import app
from corrhash.cli import items as items_module
from corrhash.collection.collection import Collection
from corrhash.index.items import FIELDS
from tests.cli.commands import fail, run
from tests.collection.world import World, same
from tests.engine_uris import new_milvus_uri


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("pictures"))


@pytest.fixture(scope="module")
def model(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "model"
    world.model.save(folder)
    return folder


@pytest.fixture
def photos(world, tmp_path):
    """A folder of six images with captions beside them."""
    folder = tmp_path / "photos"
    (folder / "deep").mkdir(parents=True)
    for row in range(6):
        path = folder / ("deep" if row % 2 else "") / f"{row}.png"
        shutil.copy(world.paths[row], path)
        path.with_suffix(".txt").write_text(world.scenes.captions[row])
    return folder


@pytest.fixture
def collection(photos, model, tmp_path):
    run("index", tmp_path / "c", photos, "--model", model)
    return tmp_path / "c"


def test_update_by_key(collection, world):
    text = world.scenes.captions[40]
    how = ["--text", text, "--labels", "dog| beach", "--set", "year=2015", "--set", "place=Paris"]
    how += ["--set", "seen=true", "--set", 'code="007"', "--set", "odd=NaN"]
    printed = run("update", collection, "0.png", "deep/1.png", "nobody", *how).output
    assert "2 updated, 0 unchanged" in printed
    assert "Skipped nobody: No item has this key." in printed
    opened = Collection.open(collection)
    for key in ("0.png", "deep/1.png"):
        item = opened.get(key)
        assert (item.text, item.labels) == (text, ("dog", "beach"))
        fields = {"year": 2015, "place": "Paris", "seen": True, "code": "007", "odd": "NaN"}
        assert item.metadata == fields
        number = opened.ids_of([key])[key]
        assert same(opened.codes_of([number], "text")[number], world.codes("text")[40])
    printed = run("update", collection, "0.png", "--remove", "labels", "--remove", "year").output
    assert "1 updated, 0 unchanged" in printed
    item = opened.get("0.png")
    assert (item.labels, "year" in item.metadata, item.text) == ((), False, text)
    run("update", collection, "0.png", "--remove", "text", "--labels", "cat")
    item = opened.get("0.png")
    assert (item.labels, item.text, item.metadata["place"]) == (("cat",), "", "Paris")


def test_update_from_a_table(collection, world, tmp_path):
    table = tmp_path / "changes.csv"
    table.write_text(
        "key,text,labels,year\n"
        f'0.png,"{world.scenes.captions[40]}",,2015\n'
        "deep/1.png,,dog|beach,\n"
        "nobody,a,b,3\n"
        ",text,,1\n"
        "2.png,,,\n"
    )
    opened = Collection.open(collection)
    before = opened.get("deep/1.png", FIELDS)
    printed = run("update", collection, "--from", table).output
    assert "2 updated, 1 unchanged" in printed
    assert "Skipped nobody: No item has this key." in printed
    assert "Skipped line 5 of changes.csv: It has no key or image." in printed
    first, second = opened.get("0.png"), opened.get("deep/1.png", FIELDS)
    assert (first.text, first.labels) == (world.scenes.captions[40], ())
    assert first.metadata == {"year": 2015}
    assert (second.labels, second.text) == (("dog", "beach"), before.text)
    table = tmp_path / "changes.jsonl"
    rows = [{"key": "2.png", "metadata": {"year": 1999}, "seen": True}, {"image": "4.png", "n": 1}]
    table.write_text("\n".join(map(json.dumps, rows)))
    assert "2 updated, 0 unchanged" in run("update", collection, "--from", table).output
    assert opened.get("2.png").metadata == {"year": 1999, "seen": True}
    assert opened.get("4.png").metadata == {"n": 1}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Nothing to update. Pass keys with --text, --labels, --set or --remove"),
        (["0.png"], "Pass item keys and at least one of --text, --labels"),
        (["--text", "sea"], "Pass item keys and at least one of --text, --labels"),
        (["0.png", "--set", "year"], "--set must be NAME=VALUE, got 'year'"),
        (["0.png", "--set", "year="], "--set must be NAME=VALUE, got 'year='"),
        (["0.png", "--set", "labels=3"], "Invalid metadata field name 'labels'"),
        (["0.png", "--set", "year=[1]"], "metadata['year'] must be a string, a boolean or a"),
        (["--from", "photo.jpg"], "photo.jpg is not a table"),
        (["--from", "gone.csv"], "Cannot read gone.csv"),
        (["--root", "nowhere"], "Folder not found: nowhere"),
    ],
)
def test_wrong_update_changes_nothing(collection, monkeypatch, capsys, arguments, message):
    before = Collection.open(collection).first_items(9)
    assert message in " ".join(fail(monkeypatch, capsys, "update", collection, *arguments).split())
    assert Collection.open(collection).first_items(9) == before


def test_moved_folder_with_a_new_root_is_unchanged(collection, photos, tmp_path):
    photos.rename(tmp_path / "moved")
    printed = run("update", collection, "--root", tmp_path / "moved").output
    assert f"Root: {tmp_path / 'moved'}" in printed.replace("\n", "")
    assert "0 new, 6 unchanged" in run("index", collection, tmp_path / "moved").output
    found = json.loads(
        run("search", collection, "--image", tmp_path / "moved" / "0.png", "--json").output
    )
    assert found[0]["path"] == str(tmp_path / "moved" / "0.png")
    shown = "".join(run("info", collection).output.split())  # without line breaks
    assert f"rootofpaths{tmp_path / 'moved'}" in shown


def test_moved_folder_is_recognized_without_a_new_root(collection, photos, tmp_path):
    moved = photos.rename(tmp_path / "moved")
    (moved / "deep").rename(moved / "deeper")
    printed = run("index", collection, moved).output
    assert "0 new, 6 moved; 6 items" in printed
    paths = {item.key: item.path for item in Collection.open(collection).first_items(9)}
    assert paths["0.png"] == str(moved / "0.png")
    assert paths["deeper/1.png"] == str(moved / "deeper" / "1.png")


def test_delete_by_key_and_filter(collection):
    printed = run("delete", collection, "0.png", "nobody", "--dry-run").output
    assert "1 of 6 items would be deleted." in printed
    assert "Skipped nobody: No item has this key." in printed
    printed = run("delete", collection, "--where", "path >= 'deep/'", "--dry-run").output
    assert "3 of 6 items would be deleted." in printed
    assert "1 deleted; 5 items in" in run("delete", collection, "0.png").output
    printed = run("delete", collection, "2.png", "deep/3.png", "--where", "path >= 'deep/'").output
    assert "1 deleted; 4 items in" in printed
    printed = run("delete", collection, "--where", "path >= 'deep/'", "--yes").output
    assert "2 deleted; 2 items in" in printed
    keys = [item.key for item in Collection.open(collection).first_items(9)]
    assert sorted(keys) == ["2.png", "4.png"]


@pytest.mark.parametrize(("answer", "left"), [("y\n", 5), ("n\n", 6), ("", 6)])
def test_delete_asks_on_a_terminal(collection, monkeypatch, answer, left):
    monkeypatch.setattr(items_module, "_on_terminal", lambda: True)
    result = CliRunner().invoke(app, ["delete", str(collection), "0.png"], input=answer)
    assert "Delete 1 of 6 items from" in result.output
    assert len(Collection.open(collection)) == left


def test_delete_needs_keys_or_a_filter(collection, monkeypatch, capsys):
    assert "Pass item keys, --where FILTER" in fail(monkeypatch, capsys, "delete", collection)
    assert "No collection at" in fail(monkeypatch, capsys, "delete", collection / "x", "0.png")


def test_index_prunes_only_missing_files_of_the_folder(
    collection, photos, world, tmp_path, monkeypatch, capsys
):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(world.paths[50], other / "50.png")
    run("index", collection, other)
    (other / "50.png").unlink()
    (photos / "0.png").unlink()
    (photos / "deep" / "1.png").rename(photos / "one.png")
    printed = run("index", collection, photos, "--prune").output
    assert "0 new, 1 moved, 4 unchanged, 1 pruned; 6 items" in printed
    keys = {item.key for item in Collection.open(collection).first_items(9)}
    assert keys == {"2.png", "4.png", "deep/3.png", "deep/5.png", "one.png", "50.png"}
    assert "No images found" in fail(monkeypatch, capsys, "index", collection, other, "--prune")
    shutil.rmtree(other)
    for source in (other, "scenes"):
        printed = fail(monkeypatch, capsys, "index", collection, source, "--prune")
        assert f"--prune needs a folder, got {source}." in printed
    sharded = ("index", collection, photos, "--shard", "0/2", "--prune")
    assert "--prune cannot be combined with shards" in fail(monkeypatch, capsys, *sharded)
    assert len(Collection.open(collection)) == 6


def test_verbs_on_milvus(photos, model, tmp_path):
    with new_milvus_uri() as uri:
        run("index", uri, photos, "--model", model)
        how = ["--model", model]
        assert "1 updated" in run("update", uri, "0.png", "--set", "year=2015", *how).output
        moved = photos.rename(tmp_path / "moved")
        run("update", uri, "--root", moved, *how)
        (moved / "2.png").unlink()
        printed = run("index", uri, moved, "--prune", *how).output
        assert "0 new, 5 unchanged, 1 pruned" in printed
        assert "1 deleted; 4 items" in run("delete", uri, "--where", "year = 2015").output


def test_duplicates_are_listed_and_kept(collection, photos, model):
    assert "0 groups of 0 items" in run("duplicates", collection).output
    shutil.copy(photos / "0.png", photos / "copy of 0.png")
    run("index", collection, photos)
    printed = run("duplicates", collection).output
    assert "1 group of 2 items that show the same image" in printed
    assert (
        f"Nothing was deleted. To keep the first item of group 1: corrhash delete {collection}"
        in (" ".join(printed.split()))
    )
    assert "'copy of 0.png'" in printed
    groups = json.loads(run("duplicates", collection, "--json", "--max-distance", 0).stdout)
    assert groups == [{"keys": ["0.png", "copy of 0.png"], "similarity": 1.0}]
    assert len(Collection.open(collection)) == 7
