"""The verbs that tell what there is."""

from PIL import Image
from typer.testing import CliRunner

from corrhash.cli import app
from tests.cli.commands import run
from tests.cli.own_pictures import boats


def test_a_check_says_what_is_there_and_draws_samples(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = boats(tmp_path / "boats")
    result = CliRunner().invoke(app, ["datasets", "check", str(folder)])
    assert result.exit_code == 1  # as a picture is damaged
    assert "29 pictures found, 0 missing, 1 damaged" in result.output
    with Image.open(tmp_path / "boats-samples.png") as picture:
        assert picture.size[0] > 900
    (folder / "4.jpg").unlink()
    lines = (folder / "manifest.csv").read_text().split("\n")
    (folder / "manifest.csv").write_text("\n".join(x for x in lines if not x.startswith("4.jpg")))
    assert "0 damaged" in run("datasets", "check", folder, "--sheet", "sheet.jpg").output
    assert (tmp_path / "sheet.jpg").exists()


def test_a_dataset_tells_where_to_get_it():
    assert "https://press.liacs.nl" in run("datasets", "mirflickr25k").output
    assert "nothing to download" in run("datasets", "scenes").output


def test_methods_and_datasets_are_listed_with_one_line_each():
    assert "cvh" in run("methods").output
    assert "Parameters" in run("methods", "cvh").output
    page = run("methods", "chn").output
    assert "training.epochs" in page
    assert "Tuning compares: lambda_ 0.03, 0.1 or 0.3;" in page
    rows = {line.split()[0]: line for line in run("methods").output.splitlines() if line.strip()}
    assert "labels, pairs, clicks" in rows["chn"]
    assert "labels, pairs " in rows["mmnn"]
    assert rows["seph"].split()[1] == "labels"
    assert rows["cvh"].split()[1] == "pairs"
    assert "scenes" in run("datasets").output
