"""Commands of a study."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from typer.testing import CliRunner

from corrhash.cli import app
from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.result_files import load_results
from corrhash.experiments.results import StudyResults
from tests.cli.commands import fail, run
from tests.experiments.fake_methods import COUNTS_FILE


def test_run_part_of_a_plan_and_report(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'datasets = ["synthetic"]\nmethods = ["cvh", "scm"]\nn_bits = [16, 32]\n'
        "[data.synthetic]\nn = 780\n[grid.cvh]\nridge = [0.1, 1.0]\n"
    )
    results, report = tmp_path / "results", tmp_path / "report"
    part = ("--method", "cvh", "--bits", "16", "--jobs", "2")
    output = run("run", plan, "--out", results, *part).output
    assert "3 of 3 done in" in output
    words = shlex.split(output[output.index("Next: corrhash ") :])[2:]
    words[-1] = str(report)
    assert "Open" in run(*words).output
    assert (report / "index.html").exists()
    again = tmp_path / "again"
    run("report", report / "results.json", "--out", again)
    assert (again / "report.md").read_text() == (report / "report.md").read_text()
    assert len(list(results.glob("*.json"))) == 1


def test_resume_repeats_no_experiment_of_a_report(tmp_path, monkeypatch):
    plan, counts = tmp_path / "plan.toml", tmp_path / "counts"
    plan.write_text(
        'datasets = ["synthetic"]\nmethods = ["counted"]\nn_bits = [16, 32]\n'
        "[data.synthetic]\nn = 780\n"
        '[rows.counted]\nmethod = "tests.experiments.fake_methods:Counted"\n'
    )
    monkeypatch.setenv(COUNTS_FILE, str(counts))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    run("run", plan, "--out", tmp_path / "first", "--bits", "16")
    run("report", tmp_path / "first", "--out", tmp_path / "report")
    assert len(counts.read_text().splitlines()) == 3  # two trials and a model
    packed = tmp_path / "report" / "results.json"
    output = run("run", plan, "--out", tmp_path / "second", "--resume", packed).output
    assert "4 of 4 done in" in output
    assert [line.split()[0] for line in counts.read_text().splitlines()[3:]] == ["32"]
    run("report", tmp_path / "second", "--out", tmp_path / "merged")
    one, merged = (
        StudyResults(load_results(tmp_path / name / "results.json"))
        for name in ("report", "merged")
    )
    for direction in DIRECTIONS:
        cell = ("synthetic", "counted", 16, direction)
        assert merged.maps(*cell) == one.maps(*cell)
    assert merged.code_lengths("synthetic") == [16, 32]


def test_resume_needs_a_file_of_results(tmp_path, monkeypatch, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text('datasets = ["synthetic"]\nmethods = ["cvh"]\nn_bits = [16]\n')
    command = ("run", plan, "--out", tmp_path / "results", "--resume", plan)
    assert "Cannot read results from" in fail(monkeypatch, capsys, *command)


def test_equal_failures_are_listed_once_at_the_end(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('datasets = ["photos"]\nmethods = ["cvh"]\nn_bits = [16, 32]\ntune = false\n')
    (tmp_path / "photos").mkdir()
    results = ["--out", str(tmp_path / "results"), "--data", f"photos={tmp_path / 'photos'}"]
    result = CliRunner().invoke(app, ["run", str(plan), *results])
    assert result.exit_code == 1
    assert result.output.count("Failed: ") == 1
    assert "Failed: cvh, 16 bits, seed 0 on photos and 1 more: " in result.output


def test_locations_are_checked_before_anything_runs(tmp_path, monkeypatch, capsys):
    plan = tmp_path / "plan.toml"
    plan.write_text('datasets = ["synthetic", "photos"]\nmethods = ["cvh"]\nn_bits = [16]\n')
    command = ("run", plan, "--out", tmp_path / "results")
    assert "has no location. Pass --data photos=FOLDER." in fail(monkeypatch, capsys, *command)
    assert not list((tmp_path / "results").glob("**/*.json"))


def test_run_a_method_by_its_import_path_as_the_guide_shows(tmp_path):
    guide = (Path(__file__).parents[2] / "docs" / "guides" / "extend.md").read_text()
    method = re.search(r"```python\n(.*?)```", guide, re.DOTALL)[1]
    plan = re.search(r"```toml\n(.*?)```", guide, re.DOTALL)[1]
    (tmp_path / "my_methods.py").write_text(method)
    (tmp_path / "plan.toml").write_text(plan.replace("n = 2000", "n = 780"))
    command = [sys.executable, "-m", "corrhash", "run", "plan.toml", "--out", "results"]
    paths = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    part = ["--method", "centroids", "--bits", "16"]
    subprocess.run(
        [*command, *part], cwd=tmp_path, env=os.environ | {"PYTHONPATH": paths}, check=True
    )
    (result,) = load_results(tmp_path / "results")
    assert result.experiment.method == "my_methods:CentroidHash"
    assert result.map("image->text") > 0.4
