"""ReadyCodes: the place of a model in a collection of codes that another program computed."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from corrhash.codes import check_n_bits
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import Hasher


class ReadyCodes(Hasher):
    """Encodes nothing: items come with their codes, and queries are codes or keys.

    Parameters
    ----------
    n_bits : code length.
    """

    needs_labels: ClassVar = False

    def __init__(self, n_bits: int = 64) -> None:
        self.n_bits = check_n_bits(n_bits)

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        raise InputError("ReadyCodes learns nothing. Use a method of corrhash methods.")

    def _embed_image(self, images: Any) -> np.ndarray:
        raise InputError(NO_MODEL.format("images"))

    def _embed_text(self, texts: Any) -> np.ndarray:
        raise InputError(NO_MODEL.format("texts"))

    @property
    def reads_images(self) -> bool:
        """Whether it encodes images: never."""
        return False

    def _is_fitted(self) -> bool:
        return True


READY_CODES = f"{ReadyCodes.__module__}:{ReadyCodes.__qualname__}"
"""How the description of a collection names it."""

NO_MODEL = (
    "This collection has ready codes and no model, so {} cannot be encoded. Search by key or by "
    "code (--key, --code on the command line), or create a collection with a model."
)
NO_CODE = (
    "It has no code, and the collection has no model to compute one. Add the field image_code or "
    "text_code."
)
