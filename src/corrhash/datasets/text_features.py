"""TextFeatures: a text encoder, by name, that a model stores and applies again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import content_checksum, staying_offline
from corrhash._registry import load_attribute
from corrhash.datasets.feature_cache import cached_rows
from corrhash.datasets.image_features import (
    HUB,
    ONNX,
    absolute_name,
    check_exists,
    check_unchanged,
    split_prefix,
)
from corrhash.errors import InputError

# Imported on first use, since networks are in a layer above datasets.
OPEN_HUB = "corrhash.networks.extractors:open_text_backbone"
OPEN_ONNX = "corrhash.networks.onnx_encoder:open_text_encoder"


@dataclass(frozen=True)
class TextFeatures:
    """A sentence encoder, for methods that learn from feature vectors of texts.

    Features are computed once per text and cached, so methods and runs share them. A text without
    any character but spaces becomes a row of zeros.

    Parameters
    ----------
    name : ``onnx:`` and a file or folder (an ONNX encoder), or ``hf:`` and a folder or hub id (a
        Hugging Face encoder).
    sha256 : checksum that the encoder must have; None accepts any.
    local_only : whether the encoder must be on this machine already, as for a saved model.
    """

    name: str
    sha256: str | None = None
    local_only: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.name.startswith((HUB, ONNX)) or not split_prefix(self.name)[1]:
            raise InputError(
                f"Unknown text features {self.name!r}. Valid: {ONNX}<file or folder> or "
                f"{HUB}<folder or hub id>."
            )

    def of_dataset(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, d) features of texts; those in the cache are not computed again."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        given = [texts[row] for row in rows]
        return self._spread(cached_rows(self._opened, given, text_checksums(given)), rows, texts)

    def of_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Return (n, d) features of texts, such as queries, without the cache."""
        rows = [row for row, text in enumerate(texts) if text.strip()]
        return self._spread(self._opened.compute([texts[row] for row in rows]), rows, texts)

    def _spread(self, features: np.ndarray, rows: list[int], texts: Sequence[str]) -> np.ndarray:
        """Return the features with rows of zeros for empty texts."""
        if len(rows) == len(texts):
            return features
        spread = np.zeros((len(texts), self._opened.n_features), np.float32)
        spread[rows] = features
        return spread

    def pinned(self) -> TextFeatures:
        """Return the same features with an absolute path and the checksum of the encoder."""
        named, opened = replace(self, name=absolute_name(self.name)), self._opened
        if self.name.startswith(ONNX):
            named = replace(self, name=f"{ONNX}{opened.source}")
        return replace(named, sha256=opened.sha256)

    def description(self) -> dict[str, str | None]:
        """Return what a model's file stores of them."""
        return {"name": self.name, "sha256": self.sha256}

    @cached_property
    def _opened(self) -> Any:
        """Open the encoder and check that it has not changed."""
        prefix, source = split_prefix(self.name)
        if Path(source).is_absolute():
            check_exists(Path(source), "text", self.sha256)
        if prefix == ONNX:
            with staying_offline(self.local_only):
                encoder = load_attribute(OPEN_ONNX)(source)
        else:
            encoder = load_attribute(OPEN_HUB)(source, local_only=self.local_only)
        check_unchanged(self.name, self.sha256, encoder.sha256)
        return encoder


def as_text_features(features: str | TextFeatures | None) -> TextFeatures | None:
    """Return the features of a name; TextFeatures pass through."""
    return TextFeatures(features) if isinstance(features, str) else features


def text_checksums(texts: Sequence[str]) -> list[str]:
    """Return a checksum of each text."""
    return [content_checksum(text.encode("utf-8", "surrogatepass")) for text in texts]
