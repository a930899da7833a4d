"""A method that notes each of its trainings in a file, and one that cannot be trained."""

import os
import time
from pathlib import Path

from corrhash.methods.cvh import CVH

PLACE = "COUNTED_TRAININGS"


class Counted(CVH):
    """CVH, slow enough to be interrupted."""

    grid = {"eps": (0.1, 1.0)}  # noqa: RUF012

    def _fit(self, pairs, validation):
        with Path(os.environ[PLACE]).open("a") as file:
            file.write(f"{self.n_bits} {self.eps}\n")
        time.sleep(0.3)
        super()._fit(pairs, validation)


class Broken(CVH):
    """Fails at 16 bits."""

    grid = {}  # noqa: RUF012

    def _fit(self, pairs, validation):
        if self.n_bits == 16:
            raise ZeroDivisionError("sixteen")
        super()._fit(pairs, validation)


class Deadly(CVH):
    """Takes its process with it."""

    grid = {}  # noqa: RUF012

    def _fit(self, pairs, validation):
        os._exit(3)
