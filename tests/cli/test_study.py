"""Commands of a study."""

import shlex

from typer.testing import CliRunner

from corrhash.cli import app
from tests.cli.commands import run


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


def test_failures_are_listed_at_the_end(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text('datasets = ["nowhere"]\nmethods = ["cvh"]\nn_bits = [16]\ntune = false\n')
    arguments = ["run", str(plan), "--out", str(tmp_path / "results")]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 1
    assert "Failed: cvh, 16 bits, seed 0 on nowhere: 'nowhere' is neither" in result.output
