"""Published numbers: as printed, and adding up to what the paper's text says."""

import pytest

from corrhash.experiments.published import LENGTHS, PUBLISHED, published_gain


def test_every_method_has_a_number_for_every_length():
    for directions in PUBLISHED.values():
        for methods in directions.values():
            assert len(methods) == 13
            assert all(tuple(maps) == LENGTHS for maps in methods.values())


@pytest.mark.parametrize(
    ("dataset", "rival", "gains"),
    [
        ("nuswide", "scm", (0.0919, 0.0644)),
        ("mirflickr25k", "seph", (0.0974, 0.1525)),
        ("nuswide", "dcmh", (0.0615, 0.0649)),
        ("mirflickr25k", "dcmh", (0.0551, 0.0653)),
    ],
)
def test_gains_are_those_that_the_text_tells(dataset, rival, gains):
    found = [published_gain(dataset, d, "chn", rival) for d in ("image->text", "text->image")]
    assert found == pytest.approx(gains, abs=1e-4)
