"""Tables: the same entries as Markdown, LaTeX, CSV and HTML."""

import csv
import io
import re
from dataclasses import replace

import numpy as np
import pytest

from corrhash.experiments.tables import Entry, Head, Table, marked, three_digits

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


def test_markdown_has_a_line_for_each_row_and_marks():
    lines = TABLE.as_markdown().splitlines()
    assert lines[2] == "| task | photos_1, 16 bits | photos_1, 32 bits |"
    assert lines[3] == "|---|---|---|"
    assert lines[4] == "| image → text | **.5 ± .1** | a\\|b |"
    assert lines[5] == "| text → image | <.4> | *.3* |"


def test_csv_is_read_back():
    rows = list(csv.reader(io.StringIO(TABLE.as_csv())))
    assert rows[0] == ["task", "photos_1 16 bits", "photos_1 32 bits"]
    assert rows[2] == ["text → image", "<.4>", ".3"]


def test_latex_is_balanced_has_as_many_columns_as_heads_and_nothing_raw():
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


def test_html_escapes_and_groups_its_heads():
    text = TABLE.as_html()
    assert '<th colspan="2">photos_1</th>' in text
    assert "<td>&lt;.4&gt;</td>" in text
    assert "<b>.5 ± .1</b>" in text
    assert text.count('<tr class="rule">') == 1


def test_the_best_and_the_second_of_each_column_are_marked():
    values = [[0.1, np.nan], [0.3, 0.5], [0.2, np.nan]]
    marks = [[e.mark for e in row] for row in marked(values, [["", ""]] * 3)]
    assert marks == [["", ""], ["best", "best"], ["second", ""]]
    assert marked([[0.5]], [["x"]]) == [[Entry("x")]]  # one row has no rival


@pytest.mark.parametrize(
    ("value", "text"), [(0.0004, ".000"), (-0.0004, ".000"), (-0.25, "-.250"), (1.0, "+1.000")]
)
def test_differences_have_a_sign_unless_they_are_zero(value, text):
    assert three_digits(value, sign=True) == text
    assert three_digits(float("nan")) == "-"


def test_each_form_numbers_titles_and_names_marks_in_its_own_way():
    table = replace(TABLE, title="Table 1. MAP", caption="Best in bold, second underlined.")
    assert r"\caption{MAP. Best in bold, second underlined.}" in table.as_latex()
    assert "second in italics" in table.as_markdown()
    assert "Table 1. MAP" in table.as_html()
