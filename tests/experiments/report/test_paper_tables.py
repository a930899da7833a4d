"""Tables of a report, and the numbers of the paper."""

import pytest

from corrhash.experiments.report import paper_tables
from corrhash.experiments.report.paper_tables import PUBLISHED, PUBLISHED_BITS, published_gain
from corrhash.experiments.result_files import load_results
from corrhash.experiments.results import StudyResults
from tests.experiments.synthetic_results import make_result, make_study


def test_published_maps_are_complete():
    for directions in PUBLISHED.values():
        for methods in directions.values():
            assert len(methods) == 13
            assert all(tuple(maps) == PUBLISHED_BITS for maps in methods.values())


@pytest.mark.parametrize(
    ("dataset", "rival", "gains"),
    [
        ("nuswide", "scm", (0.0919, 0.0644)),
        ("mirflickr25k", "seph", (0.0974, 0.1525)),
        ("nuswide", "dcmh", (0.0615, 0.0649)),
        ("mirflickr25k", "dcmh", (0.0551, 0.0653)),
    ],
)
def test_published_gains_match_the_text_of_the_paper(dataset, rival, gains):
    computed = [published_gain(dataset, d, "chn", rival) for d in ("image->text", "text->image")]
    assert computed == pytest.approx(gains, abs=1e-4)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    return StudyResults(load_results(folder))


def texts(table, *firsts):
    """Return the rest of the row that starts with these entries."""
    (row,) = [r for r in table.rows if tuple(e.text for e in r[: len(firsts)]) == firsts]
    return [entry.text for entry in row][len(firsts) :]


def marks(table, *firsts):
    (row,) = [r for r in table.rows if tuple(e.text for e in r[: len(firsts)]) == firsts]
    return [entry.mark for entry in row][len(firsts) :]


def test_map_and_variants_tables(study):
    one, two = paper_tables.map_table(study), paper_tables.variants_table(study)
    assert [r[1].text for r in one.rows[:4]] == ["CVH", "SCM", "DCMH", "CHN"]
    assert [r[1].text for r in two.rows[:5]] == ["CHN-M", "CHN-I", "CHN-Q", "CHN", "CHN-B"]
    assert [h.text for h in one.heads] == ["task", "method", "16 bits", "32 bits"]
    assert texts(one, "I→T", "CHN") == [".617 ± .002", ".633 ± .002"]
    assert marks(one, "I→T", "CHN") == ["best", "best"]
    assert marks(one, "T→I", "DCMH") == ["second", "second"]
    assert marks(two, "I→T", "CHN-B") == ["best", "best"]
    assert "2 seeds; each seed has its own split" in one.caption


def test_captions_name_rows_with_fewer_seeds(tmp_path):
    make_study(tmp_path)
    results = load_results(tmp_path)
    less = [r for r in results if (r.experiment.row, r.experiment.seed) != ("scm", 1)]
    study = StudyResults(less)
    assert "2 seeds, SCM: 1; each seed" in paper_tables.map_table(study).caption
    assert "2 seeds; each seed" in paper_tables.variants_table(study).caption


def test_binarization_table(study):
    table = paper_tables.binarization_table(study)
    assert texts(table, "I→T", "CHN", "loss") == [".050", ".050"]
    assert texts(table, "T→I", "CHN-Q", "before") == [".690", ".690"]
    assert texts(table, "T→I", "CHN-Q", "after") == [".590", ".590"]


def test_generalization_and_cost_table(study):
    table = paper_tables.beyond_table(study, "scenes")
    row = texts(table, "CHN")
    assert row[:2] == ["32", "simple"]
    assert row[2:5] == [".633 ± .002", ".534 ± .002", ".300"]
    assert row[-4:] == ["321 of 900", "2.0", "0.5", "500"]
    assert texts(table, "classifier code")[0] == "12"
    assert texts(table, "SCM")[4] == "-"


def test_significance_table(study):
    table = paper_tables.significance_table(study)
    cell = texts(table, "I→T", "CHN-M")[0]
    assert cell == "+.049 [+.049, +.049], p .013"
    assert texts(table, "I→T", "CHN-I")[0].startswith("-.011")


def test_fixed_split_is_stated_in_the_caption(tmp_path):
    for seed in (0, 1):
        make_result(tmp_path, "cvh", 16, seed, level=0.4, split="one")
    table = paper_tables.map_table(StudyResults(load_results(tmp_path)))
    assert "the dataset defines the split" in table.caption
    assert texts(table, "I→T", "CVH") == [".400"]


def test_published_table_only_for_datasets_of_the_paper(study, tmp_path):
    assert paper_tables.published_table(study, "scenes") is None
    make_result(tmp_path, "chn", 16, level=0.7, dataset="nuswide")
    table = paper_tables.published_table(StudyResults(load_results(tmp_path)), "nuswide")
    assert texts(table, "I→T", "CHN") == [".700", ".7995"]
    assert texts(table, "I→T", "CHN-B") == [".750", ".8650"]
    assert texts(table, "T→I", "CVH") == ["-", ".4357"]


def test_settings_table_counts_trials(study):
    trials = [{"experiment": {"dataset": "scenes", "row": "scm"}} for _ in range(3)]
    table = paper_tables.settings_table(study, "scenes", trials)
    assert texts(table, "SCM")[:2] == ["3", "defaults"]
    assert texts(table, "CVH")[0] == "-"
