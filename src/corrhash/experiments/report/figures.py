"""Figures: retrieval curves, training curves and the figures of a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import atomic_write
from corrhash.errors import optional_packages
from corrhash.experiments.evaluation import DIRECTIONS
from corrhash.experiments.report.paper_tables import task
from corrhash.experiments.results import VARIANTS, Result, StudyResults, title
from corrhash.metrics import Scores

with optional_packages("Drawing figures"):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

COLOURS = ("#0b6e99", "#d9730d", "#6b8e23", "#8b4fb8", "#c2255c", "#2f9e9e", "#7a5c3e", "#444444")
RANDOM_COLOUR = "#999999"


def plot_curves(scores: dict[str, dict[str, Scores]], path: str | Path, title: str) -> None:
    """Plot precision-recall and precision@R of both directions, one line per method.

    ``scores`` maps names of methods to the scores of both directions. A method named ``random`` is
    drawn as a dashed grey line.
    """
    figure = Figure(figsize=(9, 7), layout="constrained")
    panels = figure.subplots(2, 2, sharey="row")
    for column, direction in enumerate(DIRECTIONS):
        recall, rank = panels[0, column], panels[1, column]
        for number, (name, of_method) in enumerate(scores.items()):
            of_direction = of_method[direction]
            style = {"color": COLOURS[number % len(COLOURS)], "linestyle": "-"}
            if name == "random":
                style = {"color": RANDOM_COLOUR, "linestyle": "--"}
            label = f"{name}  (mAP {of_direction.map:.3f})"
            recall.plot(of_direction.pr_recall, of_direction.pr_precision, label=label, **style)
            ranks = list(of_direction.precision_at)
            rank.plot(ranks, list(of_direction.precision_at.values()), label=name, **style)
        recall.set(title=_direction_title(direction), xlabel="recall", xlim=(0, 1))
        rank.set(title=_direction_title(direction), xlabel="rank R")
        recall.legend(frameon=False)
    panels[0, 0].set_ylabel("interpolated precision")
    panels[1, 0].set_ylabel("precision@R")
    for panel in panels.flat:
        panel.set_ylim(0, 1)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title)
    FigureCanvasAgg(figure)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=130)


def plot_history(history: list[dict[str, Any]], path: str | Path, title: str) -> None:
    """Plot the loss of every epoch and the validation mAP of the epochs that computed it."""
    figure = Figure(figsize=(7, 4), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    epochs = [entry["epoch"] for entry in history]
    left.plot(epochs, [entry["loss"] for entry in history], color=COLOURS[1], label="loss")
    validated = [entry for entry in history if "validation_map" in entry]
    maps = [entry["validation_map"] for entry in validated]
    marks = [entry["epoch"] for entry in validated]
    right.plot(marks, maps, color=COLOURS[0], marker="o", label="validation mAP")
    left.set(title=title, xlabel="epoch", ylabel="loss", ylim=(0, None))
    right.set(ylabel="validation mAP", ylim=(0, 1))
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    FigureCanvasAgg(figure)
    with atomic_write(path) as file:
        figure.savefig(file, format="png", dpi=110)


# A colour-blind safe palette (Okabe and Ito); dashes distinguish further rows.
ROW_COLOURS = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#8c6d31",
    "#7f7f7f",
)
DASHES = ("-", "--", ":", "-.")
HIGHLIGHTS: dict[str, dict[str, Any]] = {
    "chn": {"color": "black", "linewidth": 2.4, "zorder": 5},
    "chn-plus": {"color": "#c1121f", "linewidth": 2.4, "zorder": 6},
}
SIMILAR, DISSIMILAR = "#0072b2", "#d55e00"
DPI = 130
COLUMNS = 4


def draw_figures(study: StudyResults) -> Iterator[tuple[str, str, bytes]]:
    """Yield name, caption and PNG of each figure that the results allow."""
    for name, draw, caption in (
        ("curves", draw_curves, "Precision-recall curves and precision@R"),
        ("bits", draw_bits, "mAP@all against code length; bars are standard deviations over seeds"),
        (
            "training",
            draw_training,
            "Training curves: loss relative to the first epoch, and validation mAP with the "
            "supervision of the method (without labels only the paired sample is relevant)",
        ),
        (
            "distances",
            draw_distances,
            "Hamming distances of pairs with and without a common label, image queries against "
            "texts; less overlap means better ranking",
        ),
        (
            "balance",
            draw_balance,
            "Bit balance: share of database items whose bit is set, one dot per bit; a bit at 0 "
            "or 1 carries no information",
        ),
    ):
        figure = draw(study)
        if figure is not None:
            yield name, caption, _png(figure)


def draw_curves(study: StudyResults) -> Figure | None:
    """Plot precision-recall above and precision@R below, for each dataset and direction."""
    rows = [row for row in study.rows if row not in VARIANTS or row == "chn"]
    panels_of = [(dataset, direction) for dataset in study.datasets for direction in DIRECTIONS]
    columns, blocks = _lines_of(len(panels_of))
    figure = Figure(figsize=(3.1 * columns + 1.6, 6.4 * blocks), layout="constrained")
    panels = figure.subplots(2 * blocks, columns, squeeze=False, sharey="row")
    for line, (x, y, label) in enumerate(
        (
            ("recall", "precision_at_recall", "recall"),
            ("ranks", "precision_at_rank", "number of retrieved items R"),
        )
    ):
        for panel, (dataset, direction) in zip(panels[line::2].ravel(), panels_of, strict=False):
            n_bits = study.plotted_bits(dataset)
            for row in rows:
                results = study.cells.get((dataset, row, n_bits), [])
                if results:
                    values = _mean(results, f"{direction}.{y}")
                    at = results[0].arrays[f"{direction}.{x}"]
                    panel.plot(at, values, label=title(row), **_style(row, study.rows))
            panel.set_title(f"{task(direction)}, {n_bits} bits\n{dataset}", fontsize=10)
            panel.set_xlabel(label)
            _tidy(panel)
    _finish(figure, panels, "precision")
    return figure


def draw_bits(study: StudyResults) -> Figure | None:
    """Plot mAP against code length, one panel per dataset and direction."""
    rows = [row for row in study.rows if row not in VARIANTS or row == "chn"]
    panels_of = [
        (dataset, direction)
        for dataset in study.datasets
        for direction in DIRECTIONS
        if len(study.code_lengths(dataset)) > 1
    ]
    if not panels_of:
        return None
    columns, lines = _lines_of(len(panels_of))
    figure = Figure(figsize=(3.4 * columns + 1.6, 3.6 * lines), layout="constrained")
    panels = figure.subplots(lines, columns, squeeze=False, sharey=True)
    for panel, (dataset, direction) in zip(panels.ravel(), panels_of, strict=False):
        for number, row in enumerate(rows):
            maps = {b: study.maps(dataset, row, b, direction) for b in study.code_lengths(dataset)}
            maps = {b: values for b, values in maps.items() if values}
            if not maps or row in study.label_length_rows:
                continue
            means = [np.mean(values) for values in maps.values()]
            spread = [np.std(v, ddof=1) if len(v) > 1 else 0 for v in maps.values()]
            style = {**_style(row, study.rows), "marker": "o", "markersize": 4, "elinewidth": 0.8}
            # Shifted sideways so that error bars do not hide one another.
            at = np.array(list(maps)) * 2 ** (0.02 * (number - len(rows) / 2))
            panel.errorbar(at, means, yerr=spread, label=title(row), **style)
        panel.set_xscale("log", base=2)
        lengths = study.code_lengths(dataset)
        panel.set_xticks(lengths, [str(b) for b in lengths])
        panel.minorticks_off()
        panel.set_title(f"{task(direction)}\n{dataset}", fontsize=10)
        panel.set_xlabel("bits")
        _tidy(panel)
    _finish(figure, panels, "mAP@all")
    return figure


def draw_training(study: StudyResults) -> Figure | None:
    """Plot loss and validation mAP of methods that are trained in epochs."""
    trained = {
        dataset: [
            row
            for row in study.rows
            if any(
                "log.loss" in r.arrays
                for r in study.cells.get(study.plotted_cell(dataset, row), [])
            )
        ]
        for dataset in study.datasets
    }
    trained = {dataset: rows for dataset, rows in trained.items() if rows}
    if not trained:
        return None
    figure = Figure(figsize=(8.6, 3.3 * len(trained)), layout="constrained")
    panels = figure.subplots(len(trained), 2, squeeze=False, sharex="row")
    for (loss, reached), (dataset, rows) in zip(panels, trained.items(), strict=True):
        for row in rows:
            logs = [r.arrays for r in study.cells[study.plotted_cell(dataset, row)]]
            longest = min(len(log["log.loss"]) for log in logs)
            losses = np.mean([log["log.loss"][:longest] for log in logs], axis=0)
            maps = np.mean([log["log.validation_map"][:longest] for log in logs], axis=0)
            epochs = logs[0]["log.epoch"][:longest]
            validated = ~np.isnan(maps)
            style = _style(row, study.rows)
            loss.plot(epochs, losses / losses[0], label=title(row), **style)
            reached.plot(epochs[validated], maps[validated], marker="o", markersize=3, **style)
        n_bits = study.plotted_bits(dataset)
        loss.set(title=f"{dataset}, {n_bits} bits", xlabel="epoch", ylabel="loss / first loss")
        loss.set_ylim(0, None)
        reached.set(title="validation", xlabel="epoch", ylabel="mAP, mean of both directions")
        _tidy(loss)
        _tidy(reached)
    _legend(figure, panels[:, 0])
    return figure


def draw_distances(study: StudyResults) -> Figure | None:
    """Plot histograms of distances of similar and dissimilar pairs, one panel per row."""

    def draw(panel: Any, results: list[Result]) -> None:
        for name, colour in (("similar", SIMILAR), ("dissimilar", DISSIMILAR)):
            counts = np.sum([r.arrays[f"image->text.{name}"] for r in results], axis=0)
            share = counts / max(1, counts.sum())
            at = np.arange(len(share))
            panel.fill_between(at, share, step="mid", alpha=0.35, color=colour, label=name)
            panel.step(at, share, where="mid", color=colour, linewidth=1)
        panel.set_yticks([])  # each histogram has area 1

    return _small_panels(study, draw, "Hamming distance", "share of pairs")


def draw_balance(study: StudyResults) -> Figure | None:
    """Plot how often each bit is set, for images and texts, one panel per row."""

    def draw(panel: Any, results: list[Result]) -> None:
        for number, (modality, colour) in enumerate((("image", SIMILAR), ("text", DISSIMILAR))):
            share = (np.concatenate([r.arrays[f"{modality}.bit_means"] for r in results]) + 1) / 2
            spread = np.linspace(-0.3, 0.3, len(share))
            panel.plot(
                number + spread, np.sort(share), ".", color=colour, markersize=4, label=modality
            )
        panel.axhline(0.5, color="#999999", linewidth=0.8)
        panel.set_xticks([0, 1], ["images", "texts"])
        panel.set_ylim(-0.03, 1.03)

    return _small_panels(study, draw, "", "share of items with the bit")


def _small_panels(
    study: StudyResults, draw: Callable[[Any, list[Result]], None], x: str, y: str
) -> Figure | None:
    """Draw a panel per dataset and row, four in a line."""
    cells = [
        (dataset, row, study.cells[study.plotted_cell(dataset, row)])
        for dataset in study.datasets
        for row in study.rows
        if study.plotted_cell(dataset, row) in study.cells
    ]
    lines = _lines_of(len(cells))[1]
    figure = Figure(figsize=(2.7 * COLUMNS, 2.1 * lines + 0.5), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for panel in panels[len(cells) :]:
        panel.set_axis_off()
    for number, (panel, (dataset, row, results)) in enumerate(zip(panels, cells, strict=False)):
        draw(panel, results)
        several = f"\n{dataset}" if len(study.datasets) > 1 else ""
        panel.set_title(f"{title(row)}, {results[0].n_bits} bits{several}", fontsize=9)
        panel.set_xlabel(x if number >= len(cells) - COLUMNS else "")
        if number % COLUMNS == 0:
            panel.set_ylabel(y, fontsize=8)
        _tidy(panel)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    return figure


def _mean(results: list[Result], name: str) -> np.ndarray:
    mean: np.ndarray = np.mean([result.arrays[name] for result in results], axis=0)
    return mean


def _style(row: str, rows: list[str]) -> dict[str, Any]:
    """Return a style: thick lines for CHN and CHN-plus, a colour and dash for every other row."""
    if row in HIGHLIGHTS:
        return dict(HIGHLIGHTS[row])
    number = [other for other in rows if other not in HIGHLIGHTS].index(row)
    dash = DASHES[number // len(ROW_COLOURS) % len(DASHES)]
    return {"color": ROW_COLOURS[number % len(ROW_COLOURS)], "linestyle": dash, "linewidth": 1.4}


def _lines_of(n_panels: int) -> tuple[int, int]:
    """Return the numbers of columns and lines of a grid of panels."""
    return min(n_panels, COLUMNS), -(-n_panels // COLUMNS)


def _finish(figure: Figure, panels: np.ndarray, y: str) -> None:
    """Hide unused panels of a grid, label the y-axis of each line, and add a legend."""
    for panel in panels.ravel():
        if not panel.has_data():
            panel.set_axis_off()
    for panel in panels[:, 0]:
        panel.set_ylabel(y)
    _legend(figure, panels.ravel())


def _legend(figure: Figure, panels: Any) -> None:
    """Add a legend with every row once, though not every panel has it."""
    drawn = [panel.get_legend_handles_labels() for panel in panels]
    lines = {
        label: h for handles, labels in drawn for h, label in zip(handles, labels, strict=True)
    }
    figure.legend(lines.values(), lines, loc="outside right center", frameon=False)


def _direction_title(direction: str) -> str:
    return f"{direction.replace('->', ' to ')} ({task(direction)})"


def _tidy(panel: Any) -> None:
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
