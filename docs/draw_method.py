"""Draw the figures of docs/explanation/chn.md: ``python docs/draw_method.py [FOLDER]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from corrhash.codes import Codes

BLUE, ORANGE, GREEN, INK = "#0072b2", "#d55e00", "#009e73", "#222222"

PAIRS = {
    "1 and 2": (np.array([[0.22, 0.38], [0.62, 0.82]]), "#c2255c"),
    "3 and 4": (np.array([[-0.10, 0.80], [0.10, 0.78]]), "#6b3fa0"),
    "5 and 6": (np.array([[0.88, -0.76], [0.74, -0.88]]), "#b8860b"),
}
"""Continuous codes of two similar items, of two bits each, and a colour."""


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "images")
    save(draw_architecture(), folder / "architecture.png")
    save(draw_distances(), folder / "three-distances.png")


def draw_architecture() -> Figure:
    """Draw the networks from images and texts to codes, and the losses between them."""
    figure = Figure(figsize=(10, 4.4), layout="constrained")
    panel = figure.subplots()
    panel.set(xlim=(0, 100), ylim=(0, 46))
    panel.set_axis_off()
    rows = {
        36: (
            BLUE,
            [
                "image",
                "AlexNet\nconv1 ... fc7",
                "hash layer fch\nb tanh units",
                "u",
                "binary code\nsign(u)",
            ],
        ),
        10: (
            ORANGE,
            [
                "text",
                "term vector\n0 or 1 per term",
                "hidden layer\nReLU, dropout",
                "hash layer fch\nb tanh units",
                "v",
                "binary code\nsign(v)",
            ],
        ),
    }
    positions = {36: [3, 17, 47, 66, 84], 10: [3, 17, 32, 47, 66, 84]}
    widths = {36: [11, 27, 13, 8, 13], 10: [11, 12, 12, 13, 8, 13]}
    for y, (colour, labels) in rows.items():
        boxes = list(zip(positions[y], widths[y], labels, strict=True))
        for number, (x, width, text) in enumerate(boxes):
            box(panel, x, y - 4, width, 8, text, colour)
            if number:
                before, wide, _ = boxes[number - 1]
                arrow(panel, (before + wide, y), (x, y))
    box(panel, 52, 18.5, 36, 9, "cosine max-margin loss\nmax(0, δ - s cos(u, v))²", GREEN)
    arrow(panel, (70, 32), (70, 27.5))
    arrow(panel, (70, 14), (70, 18.5))
    for y, edge, modality in ((44.6, 40.2, "u"), (1.4, 5.8, "v")):
        arrow(panel, (70, edge), (70, y + (-1.2 if modality == "u" else 1.2)))
        text = f"quantization max-margin loss: max(0, δ - cos(|{modality}|, 1))"
        panel.text(70, y, text, ha="center", va="center", fontsize=9, color=INK)
    panel.text(
        17, 21.5, "s = +1 for a similar pair,\n-1 for a dissimilar one", fontsize=9, color=INK
    )
    arrow(panel, (34, 23), (52, 23))
    return figure


def box(
    panel: Any, x: float, y: float, width: float, height: float, text: str, colour: str
) -> None:
    style = {"facecolor": f"{colour}22", "edgecolor": colour, "boxstyle": "round,pad=0.2"}
    panel.add_patch(FancyBboxPatch((x, y), width, height, **style))
    middle = (x + width / 2, y + height / 2)
    panel.text(*middle, text, ha="center", va="center", fontsize=9, color=INK)


def arrow(panel: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    panel.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": INK, "shrinkA": 4})


def draw_distances() -> Figure:
    """Draw three similar pairs, with Euclidean, cosine and Hamming distance of each."""
    figure = Figure(figsize=(9, 4.6), layout="constrained")
    panel, beside = figure.subplots(1, 2, width_ratios=[1, 1.1])
    turn = np.linspace(0, 2 * np.pi, 200)
    panel.plot(np.cos(turn), np.sin(turn), color="#cccccc", linewidth=1)
    for draw_axis in (panel.axhline, panel.axvline):
        draw_axis(0, color="#888888", linewidth=1.2)
    for corner in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        panel.plot(*corner, "s", color=INK, markersize=7)
        at = (corner[0] * 1.22, corner[1] * 1.13)
        panel.text(*at, f"({corner[0]:+d}, {corner[1]:+d})", ha="center", fontsize=8)
    for name, (points, colour) in PAIRS.items():
        for number, point, side in zip(name.split(" and "), points, (1, -1), strict=True):
            panel.plot([0, point[0]], [0, point[1]], color=colour, linewidth=1, alpha=0.6)
            panel.plot(*point, "o", color=colour, markersize=8)
            offset = side * 0.13 * np.array([-point[1], point[0]]) / np.linalg.norm(point)
            panel.text(*(point + offset), number, ha="center", va="center", color=colour)
    panel.set(xlim=(-1.5, 1.5), ylim=(-1.35, 1.35), aspect="equal", xticks=[], yticks=[])
    panel.set_title("continuous codes (dots), binary codes (squares)", fontsize=10)
    panel.spines[:].set_visible(False)
    beside.set_axis_off()
    table = beside.table(
        cellText=[[name, *measured(points)] for name, (points, _) in PAIRS.items()],
        colLabels=["pair", "Euclidean", "1 - cosine", "Hamming"],
        bbox=[0, 0.35, 1, 0.4],
        cellLoc="center",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(10)
    for line, (_, colour) in enumerate(PAIRS.values(), start=1):
        table[line, 0].get_text().set_color(colour)
    return figure


def measured(points: np.ndarray) -> list[str]:
    """Return the three distances between two points, as text."""
    one, other = points
    cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
    codes = Codes.from_continuous(points)
    hamming = int(codes.hamming(codes)[0, 1])
    return [f"{np.linalg.norm(one - other):.2f}", f"{1 - cosine:.2f}", str(hamming)]


def save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)


if __name__ == "__main__":
    main()
