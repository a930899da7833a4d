"""The tables of a report, from results with chosen numbers."""

import pytest

from corrhash.experiments import paper_tables
from corrhash.experiments.gathered import Gathered
from corrhash.experiments.results import load_results
from tests.experiments.made_results import make_result, make_study


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    return Gathered(load_results(folder))


def texts(table, *firsts):
    """The row that begins with these words."""
    (row,) = [r for r in table.rows if tuple(e.text for e in r[: len(firsts)]) == firsts]
    return [entry.text for entry in row][len(firsts) :]


def marks(table, *firsts):
    (row,) = [r for r in table.rows if tuple(e.text for e in r[: len(firsts)]) == firsts]
    return [entry.mark for entry in row][len(firsts) :]


def test_table_1_has_the_methods_and_table_2_the_variants(found):
    one, two = paper_tables.map_table(found), paper_tables.variants_table(found)
    assert [r[1].text for r in one.rows[:4]] == ["CVH", "SCM", "DCMH", "CHN"]
    assert [r[1].text for r in two.rows[:5]] == ["CHN-M", "CHN-I", "CHN-Q", "CHN", "CHN-B"]
    assert [h.text for h in one.heads] == ["task", "method", "16 bits", "32 bits"]
    assert texts(one, "image → text", "CHN") == [".617 ± .002", ".633 ± .002"]
    assert marks(one, "image → text", "CHN") == ["best", "best"]
    assert marks(one, "text → image", "DCMH") == ["second", "second"]
    assert marks(two, "image → text", "CHN-B") == ["best", "best"]
    assert "2 runs, each with a split of its own" in one.caption


def test_captions_name_the_rows_that_were_run_less_often(tmp_path):
    make_study(tmp_path)
    results = load_results(tmp_path)
    less = [r for r in results if (r.experiment.row, r.experiment.seed) != ("scm", 1)]
    found = Gathered(less)
    assert "2 runs (SCM: 1), each with" in paper_tables.map_table(found).caption
    assert "2 runs, each with" in paper_tables.variants_table(found).caption


def test_table_3_tells_what_rounding_costs(found):
    table = paper_tables.rounding_table(found)
    assert texts(table, "image → text", "CHN", "lost") == [".050", ".050"]
    assert texts(table, "text → image", "CHN-Q", "before") == [".690", ".690"]
    assert texts(table, "text → image", "CHN-Q", "after") == [".590", ".590"]


def test_beyond_the_paper_stand_new_items_unseen_labels_and_cost(found):
    table = paper_tables.beyond_table(found, "scenes")
    row = texts(table, "CHN")
    assert row[:2] == ["32", "simple"]
    assert row[2:5] == [".633 ± .002", ".534 ± .002", ".300"]
    assert row[-4:] == ["321 of 900", "2.0", "0.5", "500"]
    assert texts(table, "classifier code")[0] == "12"
    assert texts(table, "SCM")[4] == "-"


def test_differences_have_intervals_and_tests(found):
    table = paper_tables.significance_table(found)
    cell = texts(table, "image → text", "CHN-M")[0]
    assert cell == "+.049 [+.049, +.049], p .013"
    assert texts(table, "image → text", "CHN-I")[0].startswith("-.011")


def test_a_fixed_split_is_told_in_the_caption(tmp_path):
    for seed in (0, 1):
        make_result(tmp_path, "cvh", 16, seed, level=0.4, split="one")
    table = paper_tables.map_table(Gathered(load_results(tmp_path)))
    assert "on the split that the dataset fixes" in table.caption
    assert texts(table, "image → text", "CVH") == [".400"]


def test_published_numbers_stand_beside_ours_on_the_datasets_of_the_paper(found, tmp_path):
    assert paper_tables.published_table(found, "scenes") is None
    make_result(tmp_path, "chn", 16, level=0.7, dataset="nuswide")
    table = paper_tables.published_table(Gathered(load_results(tmp_path)), "nuswide")
    assert texts(table, "image → text", "CHN") == [".700", ".7995"]
    assert texts(table, "image → text", "CHN-B") == [".750", ".8650"]
    assert texts(table, "text → image", "CVH") == ["-", ".4357"]


def test_settings_and_the_number_of_those_compared_are_listed(found):
    trials = [{"experiment": {"dataset": "scenes", "row": "scm"}} for _ in range(3)]
    table = paper_tables.settings_table(found, "scenes", trials)
    assert texts(table, "SCM")[:2] == ["3", "defaults"]
    assert texts(table, "CVH")[0] == "-"
