"""A process that trains keeps the memory that it frees."""

import subprocess
import sys

import pytest

from corrhash.freed_memory import keep_freed_memory

PROGRAM = """
import resource
import numpy as np
from corrhash.freed_memory import keep_freed_memory

def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        np.ones(16_000_000, np.float32)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

given_back = faults()
print(keep_freed_memory())
np.ones(16_000_000, np.float32)
print(given_back, faults())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux is asked to keep memory")
def test_blocks_are_taken_again_without_asking_the_system():
    told, counted = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    if told == "False":
        pytest.skip("this C library cannot be told")
    given_back, kept = map(int, counted.split())
    assert kept < given_back / 4


def test_other_systems_are_left_alone(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert keep_freed_memory() is False
