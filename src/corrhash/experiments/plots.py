"""Scores as pictures: precision against recall, and precision along the ranking."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from corrhash.atomic_write import atomic_write
from corrhash.experiments.directions import DIRECTIONS
from corrhash.metrics import Scores

COLOURS = ("#0b6e99", "#d9730d", "#6b8e23", "#8b4fb8", "#c2255c", "#2f9e9e", "#7a5c3e", "#444444")
CHANCE = "#999999"


def plot_curves(scores: dict[str, dict[str, Scores]], path: str | Path, title: str) -> None:
    """Write four panels: the two curves of each direction, one line a method.

    ``scores`` maps names of methods to the scores of both directions. A method named ``random`` is
    drawn as the grey, dashed line of chance.
    """
    figure = Figure(figsize=(9, 7), layout="constrained")
    panels = figure.subplots(2, 2, sharey="row")
    for column, direction in enumerate(DIRECTIONS):
        recall, rank = panels[0, column], panels[1, column]
        for number, (name, of_method) in enumerate(scores.items()):
            of_direction = of_method[direction]
            style = {"color": COLOURS[number % len(COLOURS)], "linestyle": "-"}
            if name == "random":
                style = {"color": CHANCE, "linestyle": "--"}
            label = f"{name}  (MAP {of_direction.map:.3f})"
            recall.plot(of_direction.pr_recall, of_direction.pr_precision, label=label, **style)
            ranks = list(of_direction.precision_at)
            rank.plot(ranks, list(of_direction.precision_at.values()), label=name, **style)
        arrow = direction.replace("->", " → ")
        recall.set(title=arrow, xlabel="recall", xlim=(0, 1))
        rank.set(title=arrow, xlabel="rank R")
        recall.legend(frameon=False)
    panels[0, 0].set_ylabel("highest precision at this recall or more")
    panels[1, 0].set_ylabel("precision among the first R")
    for panel in panels.flat:
        panel.set_ylim(0, 1)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    FigureCanvasAgg(figure)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=130)


def plot_history(history: list[dict[str, Any]], path: str | Path, title: str) -> None:
    """Write the course of a training: the loss of every epoch, and MAP where it was looked at."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    epochs = [entry["epoch"] for entry in history]
    left.plot(epochs, [entry["loss"] for entry in history], color=COLOURS[1], label="loss")
    looked = [entry for entry in history if "validation_map" in entry]
    maps = [entry["validation_map"] for entry in looked]
    marks = [entry["epoch"] for entry in looked]
    right.plot(marks, maps, color=COLOURS[0], marker="o", label="validation MAP")
    left.set(title=title, xlabel="epoch", ylabel="loss", ylim=(0, None))
    right.set(ylabel="validation MAP", ylim=(0, 1))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    FigureCanvasAgg(figure)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=110)
