"""Tables: the same entries as Markdown, LaTeX, CSV and HTML."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from corrhash.experiments.report.tables import Entry, Head, Table, mark_best, three_digits

TABLE = Table(
    "demo",
    "A title with 100 % & more",
    [Head("task"), Head("16 bits", "photos_1"), Head("32 bits", "photos_1")],
    [
        [Entry("image → text"), Entry(".5 ± .1", "best"), Entry("a|b")],
        [Entry("text → image"), Entry("<.4>"), Entry(".3", "second")],
    ],
    "A caption.",
    [1],
)


def test_markdown():
    lines = TABLE.as_markdown().splitlines()
    assert lines[2] == "| task | photos_1, 16 bits | photos_1, 32 bits |"
    assert lines[3] == "|---|---|---|"
    assert lines[4] == "| image → text | **.5 ± .1** | a\\|b |"
    assert lines[5] == "| text → image | <.4> | *.3* |"


def test_csv():
    rows = list(csv.reader(io.StringIO(TABLE.as_csv())))
    assert rows[0] == ["task", "photos_1 16 bits", "photos_1 32 bits"]
    assert rows[2] == ["text → image", "<.4>", ".3"]


def test_latex_is_balanced_and_escaped():
    text = TABLE.as_latex()
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")
    begun, ended = (re.findall(rf"\\{word}{{(.*?)}}", text) for word in ("begin", "end"))
    assert begun == ended[::-1]
    assert re.search(r"\\begin{tabular}{(.*)}", text)[1] == "l|cc"
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert lines[0] == r"\multicolumn{1}{c}{} & \multicolumn{2}{c}{photos\_1} \\"
    for line in lines[1:]:
        assert len(re.findall(r"(?<!\\)&", line)) == 2
    assert r"\textbf{.5 $\pm$ .1}" in text
    assert r"\underline{.3}" in text
    assert r"100 \% \& more" in text
    assert text.isascii()


def test_html_is_escaped_and_has_grouped_heads():
    text = TABLE.as_html()
    assert '<th colspan="2">photos_1</th>' in text
    assert "<td>&lt;.4&gt;</td>" in text
    assert "<b>.5 ± .1</b>" in text
    assert text.count('<tr class="rule">') == 1


def test_best_and_second_best_are_marked():
    values = [[0.1, np.nan], [0.3, 0.5], [0.2, np.nan]]
    marks = [[e.mark for e in row] for row in mark_best(values, [["", ""]] * 3)]
    assert marks == [["", ""], ["best", "best"], ["second", ""]]
    assert mark_best([[0.5]], [["x"]]) == [[Entry("x")]]  # a single row is not marked


@pytest.mark.parametrize(
    ("value", "text"), [(0.0004, ".000"), (-0.0004, ".000"), (-0.25, "-.250"), (1.0, "+1.000")]
)
def test_differences_have_a_sign_unless_zero(value, text):
    assert three_digits(value, sign=True) == text
    assert three_digits(float("nan")) == "-"


def test_titles_and_marks_suit_each_format():
    table = replace(TABLE, title="Table 1. MAP", caption="Best in bold, second best underlined.")
    assert r"\caption{MAP. Best in bold, second best underlined.}" in table.as_latex()
    assert "second best in italics" in table.as_markdown()
    assert "Table 1. MAP" in table.as_html()
