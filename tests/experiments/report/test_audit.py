"""The audit table: mAP of each method under other definitions, beside the printed value."""

import json

from corrhash.experiments.evaluation import ALL_QUERIES, DIRECTIONS, MAP_VARIANTS
from corrhash.experiments.report.audit import audit_table
from corrhash.experiments.result_files import load_results
from corrhash.experiments.results import StudyResults
from tests.experiments.synthetic_results import make_result


def add_variants(folder, value):
    """Add the same mAP under every definition to all results in a folder."""
    for path in folder.glob("*.json"):
        facts = json.loads(path.read_text())
        for direction in DIRECTIONS:
            variants = dict.fromkeys(MAP_VARIANTS, value)
            if direction == "text->image":
                variants[ALL_QUERIES] = value - 0.1
            facts["directions"][direction]["variants"] = variants
        path.write_text(json.dumps(facts))


def test_rows_have_printed_measured_and_variant_maps(tmp_path):
    for row, level in (("dcmh", 0.7), ("chn-plus", 0.75)):
        make_result(tmp_path, row, 32, level=level, dataset="mirflickr25k")
    add_variants(tmp_path, 0.8)
    table = audit_table(StudyResults(load_results(tmp_path)), "mirflickr25k")
    heads = [head.text for head in table.heads]
    assert heads[:5] == ["task", "method", "printed", "mAP", "new items"]
    rows = [dict(zip(heads, (e.text for e in row), strict=True)) for row in table.rows]
    assert [(row["task"], row["method"]) for row in rows] == [
        ("I→T", "DCMH"), ("I→T", "CHN-plus"), ("T→I", "DCMH"), ("T→I", "CHN-plus"),
    ]  # fmt: skip
    assert [row["printed"] for row in rows] == [".798", "-", ".729", "-"]
    assert [row["mAP"] for row in rows] == [".700", ".750", ".700", ".750"]
    assert [row["new items"] for row in rows] == [".600", ".650", ".600", ".650"]
    assert {row["@500"] for row in rows} == {".800"}
    assert [row[ALL_QUERIES] for row in rows] == ["-", "-", ".700", ".700"]


def test_results_without_variants_have_no_table(tmp_path):
    make_result(tmp_path, "dcmh", 32, level=0.7)
    assert audit_table(StudyResults(load_results(tmp_path)), "scenes") is None
