"""Figures: what is drawn is what the results hold."""

import numpy as np
import pytest

from corrhash.experiments import figures
from corrhash.experiments.gathered import Gathered
from corrhash.experiments.results import load_results
from tests.experiments.made_results import make_result, make_study


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    make_study(folder)
    make_result(folder, "imh", 32, level=0.7, dataset="photos")
    return Gathered(load_results(folder))


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_curves_stand_above_precision_at_rank_for_each_dataset_and_direction(found):
    figure = figures.draw_curves(found)
    assert len(figure.axes) == 8  # two datasets, two directions, two kinds of curve
    headings = [panel.get_title() for panel in figure.axes[:4]]
    assert headings[0] == "(a) image → text\nphotos, 32 bits"
    assert headings[3] == "(d) text → image\nscenes, 32 bits"
    lines = {line.get_label(): line.get_ydata() for line in figure.axes[2].lines}
    assert set(lines) == {"CVH", "SCM", "DCMH", "CHN"}
    expected = found.cells["scenes", "cvh", 32]
    mean = np.mean([r.arrays["image->text.precision_at_recall"] for r in expected], axis=0)
    np.testing.assert_allclose(lines["CVH"], mean)


def test_the_legend_names_every_row_once_though_not_every_panel_has_it(found):
    assert sorted(legend(figures.draw_curves(found))) == ["CHN", "CVH", "DCMH", "IMH", "SCM"]


def test_map_is_drawn_against_bits_where_there_are_several(found):
    figure = figures.draw_bits(found)
    assert [panel.get_title() for panel in figure.axes] == [
        "image → text, scenes",
        "text → image, scenes",
    ]


def test_only_what_is_trained_in_epochs_has_training_curves(found):
    assert legend(figures.draw_training(found)) == ["CHN", "CHN-M", "CHN-I", "CHN-Q"]


def test_every_row_has_a_panel_of_distances_and_of_balance(found):
    for draw in (figures.draw_distances, figures.draw_balance):
        titles = [p.get_title() for p in draw(found).axes if p.get_title()]
        assert len(titles) == 9
        assert "classifier, 12 bits\nscenes" in [t.replace(" code", "") for t in titles]


def test_without_networks_or_lengths_figures_are_left_out(tmp_path):
    make_result(tmp_path, "cvh", 32, level=0.4)
    drawn = [name for name, _, _ in figures.draw_figures(Gathered(load_results(tmp_path)))]
    assert drawn == ["curves", "distances", "balance"]
