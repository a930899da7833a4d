"""The verbs methods and datasets."""

from PIL import Image
from typer.testing import CliRunner

from corrhash.cli import app
from tests.cli.commands import run
from tests.cli.image_folder import boats


def test_check_counts_images_and_writes_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = boats(tmp_path / "boats")
    result = CliRunner().invoke(app, ["datasets", "check", str(folder)])
    assert result.exit_code == 1  # because an image is damaged
    assert "29 images found, 0 missing, 1 damaged" in result.output
    with Image.open(tmp_path / "boats-samples.png") as image:
        assert image.size[0] > 900
    (folder / "4.jpg").unlink()
    lines = (folder / "manifest.csv").read_text().split("\n")
    (folder / "manifest.csv").write_text("\n".join(x for x in lines if not x.startswith("4.jpg")))
    assert "0 damaged" in run("datasets", "check", folder, "--sheet", "sheet.jpg").output
    assert (tmp_path / "sheet.jpg").exists()


def test_a_dataset_is_described():
    assert "https://press.liacs.nl" in run("datasets", "mirflickr25k").output
    assert "nothing to download" in run("datasets", "scenes").output


def test_methods_and_datasets_are_listed():
    assert "cvh" in run("methods").output
    assert "Parameters" in run("methods", "cvh").output
    page = run("methods", "chn-plus").output
    assert "training.epochs" in page
    assert "Tuning grid: quantization_weight 0.03, 0.1 or 0.3;" in page
    assert "Tuning grid: margin 0.5 or 0.8;" in run("methods", "chn").output
    rows = {line.split()[0]: line for line in run("methods").output.splitlines() if line.strip()}
    assert "labels, pairs, judgments" in rows["chn"]
    assert "labels, pairs, judgments" in rows["chn-plus"]
    assert "labels, pairs " in rows["mmnn"]
    assert rows["seph"].split()[1] == "labels"
    assert rows["cvh"].split()[1] == "pairs"
    assert "scenes" in run("datasets").output
