"""Stopwatches: time passes, memory is noted."""

import time

import numpy as np

from corrhash.experiments import stopwatch
from corrhash.experiments.stopwatch import Stopwatch


def test_each_stage_has_its_seconds_and_its_peak():
    watch = Stopwatch()
    with watch.stage("large"):
        np.ones(20_000_000).sum()  # 160 MB
        time.sleep(0.05)
    with watch.stage("small"):
        pass
    assert watch.seconds["large"] > 0.05 > watch.seconds["small"]
    if stopwatch.RESET.exists():
        assert watch.peak_mb["large"] > watch.peak_mb["small"] + 100


def test_where_the_system_does_not_tell_the_peak_of_the_process_has_to_do(monkeypatch, tmp_path):
    monkeypatch.setattr(stopwatch, "STATUS", tmp_path / "missing")
    monkeypatch.setattr(stopwatch, "RESET", tmp_path / "missing" / "too")
    watch = Stopwatch()
    with watch.stage("any"):
        pass
    assert watch.peak_mb["any"] > 10
