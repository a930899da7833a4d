"""Tables as Markdown, LaTeX, CSV and HTML."""

from __future__ import annotations

import csv
import html
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

import numpy as np

Mark = Literal["", "best", "second"]


@dataclass(frozen=True)
class Entry:
    """The text of a cell, and whether it is the best or second best of its column."""

    text: str
    mark: Mark = ""


@dataclass(frozen=True)
class Head:
    """The head of a column; adjacent columns of a group share a heading."""

    text: str
    group: str = ""


@dataclass(frozen=True)
class Table:
    """A table with a title and a caption.

    Parameters
    ----------
    name : name of its files, without suffix.
    title : one line above the table.
    heads : column heads.
    rows : one entry per head each.
    caption : how the numbers were obtained.
    rules_before : indices of rows with a line above them.
    """

    name: str
    title: str
    heads: Sequence[Head]
    rows: Sequence[Sequence[Entry]]
    caption: str = ""
    rules_before: Sequence[int] = ()

    def as_markdown(self) -> str:
        """Return Markdown: best in bold, second in italics (Markdown cannot underline)."""
        names = [f"{h.group}, {h.text}" if h.group else h.text for h in self.heads]
        lines = [f"**{self.title}**", "", _line(names), "|---" * len(names) + "|"]
        style = {"": "{}", "best": "**{}**", "second": "*{}*"}
        lines += [_line([style[e.mark].format(e.text) for e in row]) for row in self.rows]
        caption = self.caption.replace("second best underlined", "second best in italics")
        return "\n".join([*lines, "", caption, ""])

    def as_csv(self) -> str:
        """Return CSV without marks."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([f"{h.group} {h.text}".strip() for h in self.heads])
        writer.writerows([entry.text for entry in row] for row in self.rows)
        return file.getvalue()

    def as_latex(self) -> str:
        """Return a LaTeX ``table*`` that needs no package."""
        style = {"": "{}", "best": r"\textbf{{{}}}", "second": r"\underline{{{}}}"}
        body = []
        for number, row in enumerate(self.rows):
            rule = "\\hline\n" if number in self.rules_before else ""
            body.append(rule + _tex_line([style[e.mark].format(_tex(e.text)) for e in row]))
        return "\n".join(
            [
                r"\begin{table*}",
                r"\centering",
                rf"\caption{{{_tex(_without_number(self.title))}. {_tex(self.caption)}}}",
                rf"\label{{table:{self.name}}}",
                r"\scriptsize",
                r"\renewcommand{\arraystretch}{1.2}",
                rf"\begin{{tabular}}{{{_tex_columns(self.heads)}}}",
                r"\hline",
                *_tex_heads(self.heads),
                r"\hline",
                *body,
                r"\hline",
                r"\end{tabular}",
                r"\end{table*}",
                "",
            ]
        )

    def as_html(self) -> str:
        """Return an HTML figure with a caption."""
        style = {"": "{}", "best": "<b>{}</b>", "second": "<u>{}</u>"}
        lines = [f'<figure id="{self.name}"><h3>{html.escape(self.title)}</h3>']
        lines += ['<div class="wide"><table><thead>', *_html_heads(self.heads), "</thead><tbody>"]
        for number, row in enumerate(self.rows):
            cells = [f"<td>{style[e.mark].format(html.escape(e.text))}</td>" for e in row]
            rule = ' class="rule"' if number in self.rules_before else ""
            lines.append(f"<tr{rule}>{''.join(cells)}</tr>")
        lines += ["</tbody></table></div>", f"<figcaption>{html.escape(self.caption)}</figcaption>"]
        return "\n".join([*lines, "</figure>", ""])


def _without_number(title: str) -> str:
    """Remove the number from ``Table 1. Title``, because LaTeX numbers tables itself."""
    return re.sub(r"^Table \d+\. ", "", title)


def three_digits(value: float, sign: bool = False) -> str:
    """Format a value as ``.612``, a difference as ``+.032``, and NaN as a dash.

    >>> three_digits(0.6123), three_digits(-0.01), three_digits(0.0321, sign=True)
    ('.612', '-.010', '+.032')
    """
    if np.isnan(value):
        return "-"
    value = round(value, 3) + 0.0  # no negative zero
    text = f"{value:+.3f}" if sign and value else f"{value:.3f}"
    return text.replace("0.", ".", 1)


def mean_and_deviation(values: Sequence[float]) -> str:
    """Format values as ``.612 ± .003``, or as the mean alone if they do not vary.

    >>> mean_and_deviation([0.6, 0.62]), mean_and_deviation([0.6]), mean_and_deviation([])
    ('.610 ± .014', '.600', '-')
    """
    if not len(values):
        return "-"
    mean = three_digits(float(np.mean(values)))
    if len(values) == 1 or np.ptp(values) < 1e-9:
        return mean
    return f"{mean} ± {three_digits(float(np.std(values, ddof=1)))}"


def mark_best(
    values: Sequence[Sequence[float]], texts: Sequence[Sequence[str]]
) -> list[list[Entry]]:
    """Return entries by row and column with the best and second best of each column marked.

    ``values`` are ranked per column; NaN is ignored.
    """
    ranked = np.array(values, dtype=np.float64)  # (n_rows, n_columns)
    entries = [[Entry(text) for text in row] for row in texts]
    marks: tuple[Mark, Mark] = ("best", "second")
    for column in range(ranked.shape[1] if len(ranked) > 1 else 0):
        order = [row for row in np.argsort(-ranked[:, column]) if ranked[row, column] > -np.inf]
        for row, mark in zip(order, marks, strict=False):
            entries[row][column] = Entry(texts[row][column], mark)
    return entries


def _line(texts: Sequence[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _groups(heads: Sequence[Head]) -> list[tuple[str, int]]:
    """Return the groups of adjacent columns and their sizes."""
    return [(group, len(list(of))) for group, of in groupby(heads, key=lambda head: head.group)]


def _html_heads(heads: Sequence[Head]) -> list[str]:
    names = "".join(f"<th>{html.escape(head.text)}</th>" for head in heads)
    if not any(head.group for head in heads):
        return [f"<tr>{names}</tr>"]
    groups = "".join(f'<th colspan="{n}">{html.escape(group)}</th>' for group, n in _groups(heads))
    return [f'<tr class="groups">{groups}</tr>', f"<tr>{names}</tr>"]


def _tex_columns(heads: Sequence[Head]) -> str:
    return "|".join(("c" if group else "l") * n for group, n in _groups(heads))


def _tex_heads(heads: Sequence[Head]) -> list[str]:
    lines = []
    if any(head.group for head in heads):
        groups = [rf"\multicolumn{{{n}}}{{c}}{{{_tex(group)}}}" for group, n in _groups(heads)]
        lines.append(_tex_line(groups))
    return [*lines, _tex_line([_tex(head.text) for head in heads])]


def _tex_line(texts: Sequence[str]) -> str:
    return " & ".join(texts) + r" \\"


_TEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "$": r"\$",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"$<$",
    ">": r"$>$",
    "±": r"$\pm$",
    "→": r"$\rightarrow$",
    "λ": r"$\lambda$",
}


def _tex(text: str) -> str:
    """Escape text for LaTeX."""
    return "".join(_TEX.get(letter, letter) for letter in text)
