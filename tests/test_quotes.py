"""Tables in documents match the committed results."""

import pytest
from benchmarks.document_tables import NOT_MEASURED
from benchmarks.quote import QUOTE, ROOT, documents, quoted, with_quotes

from corrhash.experiments.result_files import load_results, save_study
from corrhash.experiments.results import StudyResults
from tests.experiments.synthetic_results import make_result

DOCUMENTS = [path for path in documents() if QUOTE.search(path.read_text())]


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_quoted_tables_match_the_results(path):
    """If this fails, run: python -m benchmarks.quote."""
    assert with_quotes(path.read_text()) == path.read_text()


def test_readme_quotes_the_study():
    assert ROOT / "README.md" in DOCUMENTS


def test_tables_without_rows_are_marked_as_not_measured(tmp_path):
    results = tmp_path / "results"
    make_result(results, "cvh", 32, level=0.4)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    study = str(tmp_path / "study")
    assert {quoted(study, name) for name in ("claims", "table2", "table3")} == {NOT_MEASURED}
    assert "CVH" in quoted(study, "table1")


def test_chn_plus_alone_fills_claims_and_binarization(tmp_path):
    results = tmp_path / "results"
    make_result(results, "seph", 32, level=0.4)
    make_result(results, "chn-plus", 32, level=0.5)
    make_result(results, "chn-plus, query refinement", 32, level=0.6)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    study = str(tmp_path / "study")
    claim = "| CHN-plus is better than the best shallow method (SePH) | I→T | +.100 |"
    assert claim in quoted(study, "claims")
    assert "| I→T | CHN-plus | loss | .050 |" in quoted(study, "table3")
    assert quoted(study, "table2") == NOT_MEASURED
    first = quoted(study, "first-results")
    assert "| precision at, 32 bits | 10, I→T | 10, T→I |" in first
    assert "| SePH | .600 | .600 |" in first
    table = quoted(study, "both-directions-with-papers")
    assert "| CHN-plus (query refinement) | **.600** / **.600** |" in table
    assert "| [SePH] | .400 / .400 |" in table


def test_tables_of_a_study_that_was_not_run_are_empty():
    assert quoted("benchmarks/results/no_such_study", "feature-sets") == NOT_MEASURED


def test_tables_of_several_datasets(tmp_path):
    results = tmp_path / "results"
    for dataset, level in (("scenes", 0.4), ("scenes, DINOv2", 0.6)):
        make_result(results, "cvh", 32, level=level, dataset=dataset)
        make_result(results, "ucch", 32, level=level + 0.1, dataset=dataset)
        make_result(results, "dsph", 32, level=level + 0.2, dataset=dataset)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    study = str(tmp_path / "study")
    assert quoted(study, "feature-sets").splitlines() == [
        "| without labels | scenes | scenes, DINOv2 | mean | first (of 4 cells) |",
        "|---|---|---|---|---|",
        "| CVH | .400 | .600 | .500 | 0 |",
        "| UCCH | **.500** | **.700** | **.600** | 4 |",
        "",
        "| with labels | scenes | scenes, DINOv2 | mean | first (of 4 cells) |",
        "|---|---|---|---|---|",
        "| DSPH | **.600** | **.800** | **.700** | 4 |",
    ]
    without = quoted(study, "feature-sets-without-training-items").splitlines()
    assert without[-1] == "| DSPH | **.500** | **.700** | **.600** | 4 |"
    assert quoted(study, "training-times").splitlines()[::4] == [
        "| seconds | scenes | scenes, DINOv2 |",
        "| UCCH | 2 | 2 |",
    ]
    assert quoted(study, "by-dataset").splitlines() == [
        "| mAP@all, I→T / T→I | scenes | DINOv2 |",
        "|---|---|---|",
        "| CVH | .400 / .400 | .600 / .600 |",
        "| DSPH | **.600** / **.600** | **.800** / **.800** |",
        "| UCCH | .500 / .500 | .700 / .700 |",
    ]
    assert quoted(study, "definitions") == NOT_MEASURED  # older results lack them


def test_means_have_a_deviation_if_all_cells_have_the_same_seeds(tmp_path):
    results = tmp_path / "results"
    for seed, level in enumerate((0.3, 0.4, 0.5)):
        for n_bits in (16, 32):
            make_result(results, "cvh", n_bits, level=level, seed=seed)
            if (n_bits, seed) != (16, 2):
                make_result(results, "ucch", n_bits, level=0.6, seed=seed)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    assert quoted(str(tmp_path / "study"), "feature-sets").splitlines() == [
        "| without labels | scenes | mean | deviation | first (of 4 cells) |",
        "|---|---|---|---|---|",
        "| CVH | .400 | .400 | .100 | 0 |",
        "| UCCH | **.600** | **.600** | - | 4 |",
    ]


def test_cells_without_results_have_no_first_method(tmp_path):
    results = tmp_path / "results"
    make_result(results, "cvh", 32, level=0.4)
    make_result(results, "ucch", 32, level=0.5)
    for n_bits in (32, 64):
        make_result(results, "dsph", n_bits, level=0.6)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    without, _ = quoted(str(tmp_path / "study"), "feature-sets").split("\n\n")
    head, _, first, second = without.splitlines()
    assert head.endswith("| first (of 2 cells) |")
    assert first.endswith("| 0 |")
    assert second.endswith("| 2 |")


def test_costs_are_seconds_and_gigabytes(tmp_path):
    results = tmp_path / "results"
    make_result(results, "cvh", 32, level=0.4)
    make_result(results, "ucch", 16, level=0.4)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    *_, row = quoted(str(tmp_path / "study"), "costs").splitlines()
    assert row == "| CVH | 2 | 0 | 0.5 | 321 |"


def test_definitions_of_papers_are_compared(tmp_path):
    results = tmp_path / "results"
    maps = {"ties by row": 0.39, "dcmh": 0.38, "@50": 0.7, "first@5000": 0.45, "@500": 0.6}
    make_result(results, "cvh", 32, level=0.4, variants=maps)
    make_result(results, "ucch", 32, level=0.5)
    save_study(tmp_path / "study.json", StudyResults(load_results(results)), [])
    assert quoted(str(tmp_path / "study"), "definitions").splitlines() == [
        "| scenes, 32 bits | all | without training items | dcmh | hashnet@50 | first@5000 "
        "| distinct codes |",
        "|---|---|---|---|---|---|---|",
        "| CVH | .400 | .300 | **.380** | **.700** | **.450** | 321 |",
        "| UCCH | **.500** | **.400** | - | - | - | 321 |",
    ]
