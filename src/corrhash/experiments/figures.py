"""The figures of a report, drawn from results alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from corrhash.experiments.directions import DIRECTIONS
from corrhash.experiments.gathered import VARIANTS, Gathered, title
from corrhash.experiments.paper_tables import arrow
from corrhash.experiments.results import Result

# Colours that the colour-blind can tell apart, and dashes where there are more rows than colours.
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6d31", "#7f7f7f")
DASHES = ("-", "--", ":", "-.")
CHN_STYLE = {"color": "black", "linewidth": 2.4, "zorder": 5}
SIMILAR, DISSIMILAR = "#0072b2", "#d55e00"
DPI = 130
COLUMNS = 4


def draw_figures(found: Gathered) -> Iterator[tuple[str, str, bytes]]:
    """Name, caption and PNG of each figure that the results allow."""
    for name, draw, caption in (
        ("curves", draw_curves, "Precision-recall curves and precision among the first R"),
        ("bits", draw_bits, "MAP against the length of codes; bars are deviations over runs"),
        (
            "training",
            draw_training,
            "Training curves: the loss, scaled by its first epoch, and MAP "
            "of validation items where it was looked at, by what the method was taught "
            "(methods of pairs: only an item's own partner is right)",
        ),
        (
            "distances",
            draw_distances,
            "Hamming distances of pairs that share a label and of others, "
            "image queries against texts; the overlap is what ranking gets wrong",
        ),
        (
            "balance",
            draw_balance,
            "Balance of bits: the share of database items whose bit is set, "
            "a dot for each bit; at 0 or 1 a bit says nothing",
        ),
    ):
        figure = draw(found)
        if figure is not None:
            yield name, caption, _png(figure)


def draw_curves(found: Gathered) -> Figure | None:
    """As in the paper: curves above, precision@R below, a column for each dataset and direction."""
    rows = [row for row in found.rows if row not in VARIANTS or row == "chn"]
    panels_of = [(dataset, direction) for dataset in found.datasets for direction in DIRECTIONS]
    figure = Figure(figsize=(3.1 * len(panels_of) + 1.6, 6.4), layout="constrained")
    panels = figure.subplots(2, len(panels_of), squeeze=False, sharey="row")
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    for line, (x, y, label) in enumerate(
        (
            ("recall", "precision_at_recall", "recall"),
            ("ranks", "precision_at_rank", "number R of retrieved items"),
        )
    ):
        for column, (dataset, direction) in enumerate(panels_of):
            panel = panels[line, column]
            shown = found.shown_length(dataset)
            for row in rows:
                results = found.cells.get((dataset, row, shown), [])
                if results:
                    values = _mean(results, f"{direction}.{y}")
                    at = results[0].arrays[f"{direction}.{x}"]
                    panel.plot(at, values, label=title(row), **_style(row, found.rows))
            heading = f"({next(letters)}) {arrow(direction)}\n{dataset}, {shown} bits"
            panel.set_title(heading, fontsize=10)
            panel.set_xlabel(label)
            _tidy(panel)
        panels[line, 0].set_ylabel("precision")
    _legend(figure, panels[0])
    return figure


def draw_bits(found: Gathered) -> Figure | None:
    """MAP against bits, a panel for each dataset and direction."""
    rows = [row for row in found.rows if row not in VARIANTS or row == "chn"]
    panels_of = [
        (dataset, direction)
        for dataset in found.datasets
        for direction in DIRECTIONS
        if len(found.lengths(dataset)) > 1
    ]
    if not panels_of:
        return None
    figure = Figure(figsize=(3.4 * len(panels_of) + 1.6, 3.6), layout="constrained")
    panels = figure.subplots(1, len(panels_of), squeeze=False, sharey=True)[0]
    for panel, (dataset, direction) in zip(panels, panels_of, strict=True):
        for number, row in enumerate(rows):
            maps = {b: found.maps(dataset, row, b, direction) for b in found.lengths(dataset)}
            maps = {b: values for b, values in maps.items() if values}
            if not maps or row in found.own_length:
                continue
            means = [np.mean(values) for values in maps.values()]
            spread = [np.std(v, ddof=1) if len(v) > 1 else 0 for v in maps.values()]
            style = {**_style(row, found.rows), "marker": "o", "markersize": 4, "elinewidth": 0.8}
            # Beside one another, so that no bar hides another.
            at = np.array(list(maps)) * 2 ** (0.02 * (number - len(rows) / 2))
            panel.errorbar(at, means, yerr=spread, label=title(row), **style)
        panel.set_xscale("log", base=2)
        lengths = found.lengths(dataset)
        panel.set_xticks(lengths, [str(b) for b in lengths])
        panel.minorticks_off()
        panel.set(title=f"{arrow(direction)}, {dataset}", xlabel="bits")
        _tidy(panel)
    panels[0].set_ylabel("MAP")
    _legend(figure, panels)
    return figure


def draw_training(found: Gathered) -> Figure | None:
    """Loss and validation MAP of everything that is trained in epochs."""
    trained = {
        dataset: [
            row
            for row in found.rows
            if any("log.loss" in r.arrays for r in found.cells.get(_shown(found, dataset, row), []))
        ]
        for dataset in found.datasets
    }
    trained = {dataset: rows for dataset, rows in trained.items() if rows}
    if not trained:
        return None
    figure = Figure(figsize=(8.6, 3.3 * len(trained)), layout="constrained")
    panels = figure.subplots(len(trained), 2, squeeze=False, sharex="row")
    for (loss, reached), (dataset, rows) in zip(panels, trained.items(), strict=True):
        for row in rows:
            logs = [r.arrays for r in found.cells[_shown(found, dataset, row)]]
            longest = min(len(log["log.loss"]) for log in logs)
            losses = np.mean([log["log.loss"][:longest] for log in logs], axis=0)
            maps = np.mean([log["log.validation_map"][:longest] for log in logs], axis=0)
            epochs = logs[0]["log.epoch"][:longest]
            looked = ~np.isnan(maps)
            style = _style(row, found.rows)
            loss.plot(epochs, losses / losses[0], label=title(row), **style)
            reached.plot(epochs[looked], maps[looked], marker="o", markersize=3, **style)
        shown = found.shown_length(dataset)
        loss.set(title=f"{dataset}, {shown} bits", xlabel="epoch", ylabel="loss / first loss")
        loss.set_ylim(0, None)
        reached.set(title="validation items", xlabel="epoch", ylabel="MAP, mean of directions")
        _tidy(loss)
        _tidy(reached)
    _legend(figure, panels[:, 0])
    return figure


def draw_distances(found: Gathered) -> Figure | None:
    """A panel for each row: distances of similar and of dissimilar pairs."""

    def draw(panel: Any, results: list[Result]) -> None:
        for name, colour in (("similar", SIMILAR), ("dissimilar", DISSIMILAR)):
            counts = np.sum([r.arrays[f"image->text.{name}"] for r in results], axis=0)
            share = counts / max(1, counts.sum())
            at = np.arange(len(share))
            panel.fill_between(at, share, step="mid", alpha=0.35, color=colour, label=name)
            panel.step(at, share, where="mid", color=colour, linewidth=1)
        panel.set_yticks([])  # the two areas are one each, whatever the length

    return _small_panels(found, draw, "Hamming distance", "share of pairs")


def draw_balance(found: Gathered) -> Figure | None:
    """A panel for each row: how often each bit is set, for images and for texts."""

    def draw(panel: Any, results: list[Result]) -> None:
        for number, (side, colour) in enumerate((("image", SIMILAR), ("text", DISSIMILAR))):
            share = (np.concatenate([r.arrays[f"{side}.bit_means"] for r in results]) + 1) / 2
            spread = np.linspace(-0.3, 0.3, len(share))
            panel.plot(number + spread, np.sort(share), ".", color=colour, markersize=4, label=side)
        panel.axhline(0.5, color="#999999", linewidth=0.8)
        panel.set_xticks([0, 1], ["images", "texts"])
        panel.set_ylim(-0.03, 1.03)

    return _small_panels(found, draw, "", "share of items with the bit")


def _small_panels(
    found: Gathered, draw: Callable[[Any, list[Result]], None], x: str, y: str
) -> Figure | None:
    """A panel for each dataset and row, four in a line."""
    cells = [
        (dataset, row, found.cells[_shown(found, dataset, row)])
        for dataset in found.datasets
        for row in found.rows
        if _shown(found, dataset, row) in found.cells
    ]
    lines = -(-len(cells) // COLUMNS)
    figure = Figure(figsize=(2.7 * COLUMNS, 2.1 * lines + 0.5), layout="constrained")
    panels = figure.subplots(lines, COLUMNS, squeeze=False).ravel()
    for panel in panels[len(cells) :]:
        panel.set_axis_off()
    for number, (panel, (dataset, row, results)) in enumerate(zip(panels, cells, strict=False)):
        draw(panel, results)
        several = f"\n{dataset}" if len(found.datasets) > 1 else ""
        panel.set_title(f"{title(row)}, {results[0].n_bits} bits{several}", fontsize=9)
        panel.set_xlabel(x if number >= len(cells) - COLUMNS else "")
        if number % COLUMNS == 0:
            panel.set_ylabel(y, fontsize=8)
        _tidy(panel)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=2, frameon=False)
    return figure


def _shown(found: Gathered, dataset: str, row: str) -> tuple[str, str, int]:
    """The cell of a row that is drawn: at the shown length, or at its own."""
    own = [b for data, name, b in found.cells if (data, name) == (dataset, row)]
    shown = found.shown_length(dataset)
    return dataset, row, own[0] if own and row in found.own_length else shown


def _mean(results: list[Result], name: str) -> np.ndarray:
    mean: np.ndarray = np.mean([result.arrays[name] for result in results], axis=0)
    return mean


def _style(row: str, rows: list[str]) -> dict[str, Any]:
    """CHN in black and thick; every other of all rows has a colour and a dash of its own."""
    if row == "chn":
        return dict(CHN_STYLE)
    number = [other for other in rows if other != "chn"].index(row)
    dash = DASHES[number // len(COLOURS) % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "linestyle": dash, "linewidth": 1.4}


def _legend(figure: Figure, panels: Any) -> None:
    """Every row once, though not every panel has it."""
    drawn = [panel.get_legend_handles_labels() for panel in panels]
    lines = {
        label: h for handles, labels in drawn for h, label in zip(handles, labels, strict=True)
    }
    figure.legend(lines.values(), lines, loc="outside right center", frameon=False)


def _tidy(panel: Any) -> None:
    panel.grid(alpha=0.25)
    panel.spines[["top", "right"]].set_visible(False)
    panel.tick_params(labelsize=8)


def _png(figure: Figure) -> bytes:
    FigureCanvasAgg(figure)
    file = BytesIO()
    figure.savefig(file, format="png", dpi=DPI)
    return file.getvalue()
