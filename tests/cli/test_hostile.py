"""Hostile arguments and files: one error message, no traceback, no waiting."""

import os
import shutil
import sys

import pytest
from PIL import Image

from corrhash.cli import main
from tests.cli.commands import fail, run
from tests.collection.world import World

DIGITS = "9" * 5000
DEEP = "[" * 100_000
BYTES = "\udcff"  # how Python represents a byte that is not UTF-8 in an argument


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return World(tmp_path_factory.mktemp("images"))


@pytest.fixture(scope="module")
def model(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile") / "model"
    world.model.save(folder)
    return folder


@pytest.fixture(scope="module")
def collection(world, model):
    folder = model.parent / "collection"
    run("index", folder, world.paths[0].parent, "--model", model)
    return folder


def outcome(monkeypatch, capsys, *arguments):
    """Return exit code and output of a command."""
    monkeypatch.setattr(sys, "argv", ["corrhash", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        main()
    captured = capsys.readouterr()
    return stopped.value.code, captured.out + captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "-k", DIGITS, "boat"),
        ("search", "--radius", DIGITS, "boat"),
        ("search", "--where", f"row > {DIGITS}", "boat"),
        ("search", "--where", f"row > 1e{DIGITS}", "boat"),
        ("search", "--where", "(" * 5000, "boat"),
        ("search", "--where", "not " * 5000, "boat"),
        ("search", "--where", f"key = '{BYTES}'", "boat"),
        ("search", "--key", BYTES),
        ("search", "--image", f"{BYTES}.png"),
        ("search", "--image", "a" * 5000),
        ("search", "--image", "/dev/zero"),
        ("search", f"--{BYTES}"),
        ("update", "00.png", "--set", f"year={DIGITS}", "--set", f"{BYTES}=1"),
        ("update", "00.png", "--text", BYTES),
        ("update", BYTES, "--text", "boat"),
        ("update", "--from", "a" * 5000 + ".csv"),
        ("serve", "--rate", f"1e{DIGITS}"),
        ("serve", "--port", DIGITS),
        ("serve", "--name", BYTES),
        ("serve", "--writable", "--token-file", "/dev/zero"),
        ("index", "/dev/zero"),
        ("index", "a" * 5000),
        ("index", BYTES),
        ("index", "scenes", "--shard", f"{DIGITS}/{DIGITS}"),
        ("index", "scenes", "--shard", f"0/{DIGITS}"),
        ("index", "scenes", "--shard", "٣/٤"),
        ("delete", "--where", f"text = '{BYTES}'", "-y"),
    ],
)
def test_hostile_arguments_get_one_message(collection, monkeypatch, capsys, arguments):
    verb, *rest = arguments
    code, output = outcome(monkeypatch, capsys, verb, collection, *rest)
    assert code == 2
    assert "Traceback" not in output
    assert "defect" not in output


def test_deep_values_are_stored_as_strings(collection, monkeypatch, capsys):
    code, output = outcome(
        monkeypatch, capsys, "update", collection, "00.png", "--set", f"deep={DEEP[:50]}"
    )
    assert (code, "1 updated" in output) == (0, True)


def make_pipe(path):
    if not hasattr(os, "mkfifo"):
        pytest.skip("needs pipes")
    os.mkfifo(path)
    return path


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "tar", "npz", "mat", "png"])
def test_pipes_are_refused_without_waiting(collection, tmp_path, monkeypatch, capsys, suffix):
    pipe = make_pipe(tmp_path / f"pipe.{suffix}")
    message = fail(monkeypatch, capsys, "index", collection, pipe)
    assert "is a pipe or a device. Pass a regular file or a folder." in message
    if suffix == "csv":
        assert "pipe" in fail(monkeypatch, capsys, "update", collection, "--from", pipe)
    if suffix == "png":
        assert "not a regular file" in fail(
            monkeypatch, capsys, "search", collection, "--image", pipe
        )


def test_odd_files_of_a_folder_are_skipped_and_named(world, model, tmp_path, monkeypatch, capsys):
    odd = tmp_path / "odd"
    (odd / "folder.png").mkdir(parents=True)
    make_pipe(odd / "pipe.png")
    make_pipe(odd / "good.txt")
    (odd / "zero.png").symlink_to("/dev/zero")
    (odd / "loop.png").symlink_to("loop.png")
    (odd / "self").symlink_to(".")
    (odd / "gone.png").symlink_to("/nowhere")
    (odd / "text.png").write_text("not an image")
    shutil.copy(world.paths[0], odd / "good.png")
    try:
        shutil.copy(world.paths[1], os.fsencode(odd) + b"/n\xff.png")
    except OSError:
        pytest.skip("the file system requires UTF-8")
    code, output = outcome(monkeypatch, capsys, "index", tmp_path / "c", odd, "--model", model)
    assert code == 0
    assert "1 new" in output
    assert "Skipped 'n\\udcff.png': Its name or folder is not UTF-8. Rename it." in output
    assert "Skipped text.png: Cannot decode the image" in output
    assert "Skipped in total" not in output


def test_unreadable_files_are_skipped(world, model, tmp_path, monkeypatch, capsys):
    if os.geteuid() == 0:
        pytest.skip("root can read every file")
    shutil.copytree(world.paths[0].parent, tmp_path / "photos")
    (tmp_path / "photos" / "00.png").chmod(0)
    code, output = outcome(
        monkeypatch, capsys, "index", tmp_path / "c", tmp_path / "photos", "--model", model
    )
    assert code == 0
    assert "Skipped 00.png: Cannot decode the image" in output


def test_names_that_are_not_unicode_do_not_stop_training(world, tmp_path, monkeypatch, capsys):
    photos = tmp_path / "photos"
    photos.mkdir()
    for row in range(12):
        shutil.copy(world.paths[row], photos)
        (photos / f"{row:02}.txt").write_text(world.scenes.captions[row])
    try:
        shutil.copy(world.paths[0], os.fsencode(photos) + b"/n\xff.png")
    except OSError:
        pytest.skip("the file system requires UTF-8")
    code, output = outcome(
        *(monkeypatch, capsys, "train", photos, "--out", tmp_path / "m"),
        *("--method", "cvh", "--bits", "4", "--image-features", "simple"),
    )
    assert (code, "Skipping 'n\\udcff.png'" in output) == (0, True), output


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("verb", ["train", "datasets"])
def test_almost_empty_folders_get_one_message(tmp_path, monkeypatch, capsys, verb, n):
    (tmp_path / "photos").mkdir()
    if n:
        Image.new("RGB", (9, 9)).save(tmp_path / "photos" / "red boat.png")
    rest = ["--out", tmp_path / "m", "--method", "cvh"] if verb == "train" else []
    words = [verb, *(["check"] if verb == "datasets" else []), tmp_path / "photos", *rest]
    message = fail(monkeypatch, capsys, *words)
    assert ("No images found" if n == 0 else "has 1 item") in message


def test_defects_are_reported_without_a_traceback(monkeypatch, capsys):
    def broken():
        raise KeyError("oops")

    monkeypatch.setattr("corrhash.cli.app", broken)
    code, output = outcome(monkeypatch, capsys, "methods")
    assert code == 70
    assert "KeyError: 'oops'. This is a bug in corrhash." in " ".join(output.split())
    monkeypatch.setenv("CORRHASH_TRACEBACK", "1")
    with pytest.raises(KeyError):
        main()
