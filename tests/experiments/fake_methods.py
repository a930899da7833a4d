"""Methods for tests of studies: one counts its fits, one raises, one kills its process."""

import os
import time
from pathlib import Path

from corrhash.methods.cvh import CVH

COUNTS_FILE = "COUNTED_FITS_FILE"


class Counted(CVH):
    """CVH, slow enough to be interrupted."""

    grid = {"ridge": (0.1, 1.0)}  # noqa: RUF012

    def _fit(self, pairs, validation):
        with Path(os.environ[COUNTS_FILE]).open("a") as file:
            file.write(f"{self.n_bits} {self.ridge}\n")
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
    """Kills its process."""

    grid = {}  # noqa: RUF012

    def _fit(self, pairs, validation):
        os._exit(3)
