"""Figures: panels, lines and legends."""

import numpy as np
import pytest
from PIL import Image

from corrhash import Codes
from corrhash.experiments.report import figures
from corrhash.experiments.report.figures import plot_curves
from corrhash.experiments.result_files import load_results
from corrhash.experiments.results import StudyResults
from corrhash.metrics import evaluate
from tests.experiments.synthetic_results import make_result, make_study


def test_plot_curves_draws_every_method(tmp_path):
    rng = np.random.default_rng(0)
    labels = np.eye(3, dtype=int)[rng.integers(0, 3, 300)]
    codes = Codes.from_continuous(labels @ rng.normal(size=(3, 16)) + rng.normal(size=(300, 16)))
    scores = evaluate(codes[:50], codes[50:], labels[:50], labels[50:])
    both = {"image->text": scores, "text->image": scores}
    plot_curves({"cvh": both, "random": both}, tmp_path / "curves.png", "a title")
    with Image.open(tmp_path / "curves.png") as image:
        pixels = np.asarray(image.convert("RGB"))
    assert pixels.shape[0] > 600
    colours = {tuple(colour) for colour in np.unique(pixels.reshape(-1, 3), axis=0)}
    assert (0x0B, 0x6E, 0x99) in colours  # the first method's line
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    make_result(folder, "imh", 32, level=0.7, dataset="photos")
    return StudyResults(load_results(folder))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_have_panels_per_dataset_and_direction(study):
    figure = figures.draw_curves(study)
    assert len(figure.axes) == 8  # two datasets, two directions, two kinds of curve
    headings = [panel.get_title() for panel in figure.axes[:4]]
    assert headings[0] == "I→T, 32 bits\nphotos"
    assert headings[3] == "T→I, 32 bits\nscenes"
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[2].lines}
    assert set(lines) == {"CVH", "SCM", "DCMH", "CHN"}
    expected = study.cells["scenes", "cvh", 32]
    mean = np.mean([r.arrays["image->text.precision_at_recall"] for r in expected], axis=0)
    np.testing.assert_allclose(lines["CVH"], mean)


def test_legend_names_every_row_once(study):
    assert sorted(legend(figures.draw_curves(study))) == ["CHN", "CVH", "DCMH", "IMH", "SCM"]


def test_map_against_code_length(study):
    figure = figures.draw_bits(study)
    assert [panel.get_title() for panel in figure.axes] == [
        "I→T\nscenes",
        "T→I\nscenes",
    ]


def test_lines_have_at_most_four_panels(tmp_path):
    for dataset in ("coco", "photos", "scenes"):
        for n_bits in (16, 32):
            make_result(tmp_path, "cvh", n_bits, level=0.7, dataset=dataset)
    study = StudyResults(load_results(tmp_path))
    for draw, lines in ((figures.draw_bits, 2), (figures.draw_curves, 4)):
        figure = draw(study)
        grid = figure.axes[0].get_gridspec()
        assert (grid.nrows, grid.ncols) == (lines, 4)
        shown = [panel.get_title().partition("\n")[2] for panel in figure.axes if panel.axison]
        assert shown[:6] == [
            *("coco", "coco", "photos", "photos"),
            *(("scenes", "scenes") if lines == 2 else ("coco", "coco")),
        ]
        assert len(shown) == 6 * lines // 2


def test_training_curves_of_networks_only(study):
    assert legend(figures.draw_training(study)) == ["CHN", "CHN-M", "CHN-I", "CHN-Q"]


def test_distances_and_balance_have_a_panel_per_row(study):
    for draw in (figures.draw_distances, figures.draw_balance):
        titles = [p.get_title() for p in draw(study).axes if p.get_title()]
        assert len(titles) == 9
        assert "classifier, 12 bits\nscenes" in [t.replace(" code", "") for t in titles]


def test_figures_without_data_are_skipped(tmp_path):
    make_result(tmp_path, "cvh", 32, level=0.4)
    drawn = [name for name, _, _ in figures.draw_figures(StudyResults(load_results(tmp_path)))]
    assert drawn == ["curves", "distances", "balance"]
