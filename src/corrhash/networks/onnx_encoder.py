"""Image and text encoders in ONNX files, run by ONNX Runtime without PyTorch.

Items are encoded one at a time, in threads: the features of an item then depend neither on a batch
nor on padding, also for quantized networks, and a single query costs no more than its own item.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from corrhash._files import atomic_write, cache_folder, file_sha256, make_folder
from corrhash._progress import report
from corrhash.datasets.images import n_threads
from corrhash.errors import InputError, optional_packages
from corrhash.networks.encoder_files import Tower, find_tower, local_path

PREFIX = "onnx:"
REPORT_EVERY = 16
PURPOSE = "An ONNX encoder"

_OUTPUTS = {
    "image": ("image_embeds", "pooler_output", "last_hidden_state"),
    "text": ("text_embeds", "sentence_embedding", "last_hidden_state", "token_embeddings"),
}
"""Names of outputs by modality, the best first."""


def open_image_encoder(source: str) -> OnnxEncoder:
    """Return the image encoder at a path, of a name or of a hub id, with or without ``onnx:``."""
    return OnnxEncoder(find_tower(source.removeprefix(PREFIX), "image"), _origin(source))


def open_text_encoder(source: str) -> OnnxEncoder:
    """Return the text encoder at a path, of a name or of a hub id, with or without ``onnx:``."""
    return OnnxEncoder(find_tower(source.removeprefix(PREFIX), "text"), _origin(source))


def _origin(source: str) -> str:
    """Return an absolute path for a path or a name, and a hub id unchanged."""
    source = source.removeprefix(PREFIX)
    path = local_path(source)
    return source if path is None else str(path.absolute())


def open_session(path: Path, purpose: str, threads: int = 0, content: bytes | None = None) -> Any:
    """Return an ONNX Runtime session on the CPU; 0 threads are as many as there are cores.

    ``content`` is that of the file, if it was read and verified before.
    """
    with optional_packages(purpose):
        import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only: it warns about machines without a GPU
    options.intra_op_num_threads = threads
    try:
        network = path if content is None else content
        return onnxruntime.InferenceSession(network, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the library raises many types
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"Cannot load the network {path}: {reason}") from error


@dataclass(frozen=True)
class OnnxEncoder:
    """The features of images or texts; the network is loaded on first use.

    ``source`` is the absolute path or the hub id of the encoder.
    """

    tower: Tower
    source: str = ""

    @property
    def name(self) -> str:
        """Name of the encoder, used in folder names."""
        file = self.tower.file
        folder = file.parent.parent if file.parent.name in _FOLDERS else file.parent
        return f"onnx-{folder.name if file.stem in _NAMES else file.stem}"

    @cached_property
    def sha256(self) -> str:
        """One checksum over the network, its tokenizer and its settings."""
        digest = hashlib.sha256(repr(sorted(self.tower.settings().items())).encode())
        data = self.tower.file.with_name(f"{self.tower.file.name}_data")  # of large networks
        for path in (self.tower.file, data, self.tower.tokenizer):
            if path is not None and path.exists():
                digest.update(file_sha256(path).encode())
        return digest.hexdigest()

    @cached_property
    def key(self) -> str:
        """Cache key of everything that the features depend on."""
        return f"{self.name}-{self.sha256[:16]}"

    def compute(self, items: Any, *, done: int = 0, total: int | None = None) -> np.ndarray:
        """Return the (n, d) float32 features of images, or of texts with at least one character.

        ``done`` of ``total`` items were computed before, for progress reports.
        """
        encode = self._encode_image if self.tower.modality == "image" else self._encode_text
        n, features = len(items), list[np.ndarray]()
        for vector in _in_threads(encode, items):
            features.append(vector)
            if len(features) % REPORT_EVERY == 0 or len(features) == n:
                report(f"{self.tower.modality.title()} features", done + len(features), total or n)
        return np.stack(features) if features else np.empty((0, self.n_features), np.float32)

    @cached_property
    def n_features(self) -> int:
        """Number of features of an item."""
        if self.tower.modality == "text":
            return len(self._encode_text("a"))
        return len(self._encode_image(np.zeros((8, 8, 3), np.uint8)))

    def _encode_image(self, image: Any) -> np.ndarray:
        preprocessing = self._network.preprocessing
        pixels = preprocessing.plain(preprocessing.read([image]))
        if self.tower.channels_last:
            pixels = np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
        return self._pooled(self._network.run({self._network.main: pixels}), None)

    def _encode_text(self, text: str) -> np.ndarray:
        network = self._network
        ids = network.tokenizer.encode(text).ids
        n_tokens, padding = len(ids), max(0, network.pad_to - len(ids))
        tokens = np.array([[*ids, *[network.pad_id] * padding]])
        mask = np.array([[1] * n_tokens + [0] * padding])
        inputs = {network.main: tokens, "attention_mask": mask, "token_type_ids": 0 * tokens}
        position = {"position_ids": np.arange(tokens.shape[1])[None]}
        return self._pooled(network.run({**position, **inputs}), mask)

    def _pooled(self, output: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return the (d,) features of one item from its output."""
        if not np.isfinite(output).all():
            raise InputError(
                f"{self.tower.file} returned values that are not finite. Check its preprocessing, "
                "or use another export of the model."
            )
        features = _pool(output[0], self.tower, None if mask is None else mask[0])
        features = features.astype(np.float32).ravel()
        length = float(np.linalg.norm(features))
        return features / length if self.tower.normalize and length else features

    @cached_property
    def _network(self) -> _Network:
        return _Network(self.tower, self.sha256)


_FOLDERS = ("onnx", "visual", "textual")
_NAMES = ("model", "model_quantized", "vision_model", "text_model")


_TYPES = {"tensor(float16)": np.float16, "tensor(int32)": np.int32, "tensor(int64)": np.int64}


class _Network:
    """A session and what it takes: the names of its inputs, the tokenizer, the padding."""

    def __init__(self, tower: Tower, sha256: str) -> None:
        self._session = _session_of(tower, sha256)
        self._inputs = {each.name: each for each in self._session.get_inputs()}
        outputs = [each.name for each in self._session.get_outputs()]
        preferred = (tower.output, *_OUTPUTS[tower.modality])
        self._output = next((name for name in preferred if name in outputs), outputs[0])
        self.main = self._main_input(tower)
        shape = self._inputs[self.main].shape
        if tower.modality == "image":
            self._use_size(tower, shape)
            return
        self.tokenizer, self.pad_id = _open_tokenizer(tower)
        fixed = shape[1] if len(shape) == 2 and isinstance(shape[1], int) else 0
        self.pad_to = fixed or (tower.max_length if tower.pad_to_max else 0)
        self.tokenizer.enable_truncation(fixed or tower.max_length)

    def _main_input(self, tower: Tower) -> str:
        """Return the input that takes pixels or tokens."""
        n_axes = 4 if tower.modality == "image" else 2
        kind = "float" if tower.modality == "image" else "int"
        found = [
            name
            for name, each in self._inputs.items()
            if len(each.shape) == n_axes
            and kind in each.type
            and name not in ("attention_mask", "token_type_ids", "position_ids")
        ]
        optional = {"attention_mask", "token_type_ids", "position_ids"}
        others = sorted(set(self._inputs) - set(found) - optional)
        if len(found) != 1 or others:
            raise InputError(
                f"{tower.file} does not encode {tower.modality}s only: its inputs are "
                f"{', '.join(self._inputs)}. Pass a folder with separate networks for images and "
                "texts, or the file of one of them."
            )
        return found[0]

    def _use_size(self, tower: Tower, shape: Sequence[Any]) -> None:
        """Set the preprocessing, at the size that the network requires, if it is fixed."""
        assert tower.preprocessing is not None
        side = shape[1] if tower.channels_last else shape[2]
        fixed = isinstance(side, int) and side != tower.preprocessing.crop
        self.preprocessing = (
            tower.preprocessing.at_size(side) if fixed and side else tower.preprocessing
        )

    def run(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """Return the output for the values that the network takes."""
        given = {
            name: value.astype(_TYPES.get(self._inputs[name].type, value.dtype), copy=False)
            for name, value in values.items()
            if name in self._inputs
        }
        try:
            (output,) = self._session.run([self._output], given)
        except Exception as error:  # the library raises many types
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"Cannot run the encoder: {reason}") from error
        return np.asarray(output, np.float32)


def _pool(output: np.ndarray, tower: Tower, mask: np.ndarray | None) -> np.ndarray:
    """Return the features of one item: (d,), (length, d), or a map of features."""
    pooling = tower.pooling or ("first" if tower.modality == "image" else "mean")
    if output.ndim == 1 or pooling == "none":
        return output
    if output.ndim == 3:
        return output.mean(axis=(0, 1) if tower.channels_last else (1, 2))
    if pooling == "first":
        return output[0]
    weights = np.ones(len(output)) if mask is None else mask[: len(output)]
    return (weights[:, None] * output).sum(axis=0) / max(1, weights.sum())


def _open_tokenizer(tower: Tower) -> tuple[Any, int]:
    """Return the tokenizer without padding, and the number of the token to pad with."""
    with optional_packages("A text encoder in ONNX"):
        from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(tower.tokenizer))
    except Exception as error:  # the library raises Exception
        raise InputError(f"Cannot read {tower.tokenizer}: {error}. Download it again.") from error
    padding = tokenizer.padding or {}
    tokenizer.no_padding()
    tokens = ("[PAD]", "<pad>", "<|endoftext|>", "</s>")
    ids = (tokenizer.token_to_id(token) for token in tokens)
    known = next((number for number in ids if number is not None), 0)
    return tokenizer, int(padding.get("pad_id", known))


def _session_of(tower: Tower, sha256: str) -> Any:
    """Open the network; one that must end at an inner tensor is cut there once, in the cache."""
    path = cache_folder() / "onnx" / f"{tower.file.stem}-{sha256[:16]}.onnx"
    if tower.output is None or not path.exists():
        session = open_session(tower.file, PURPOSE, threads=1)
        outputs = [each.name for each in session.get_outputs()]
        if tower.output is None or tower.output in outputs:
            return session
        _cut(tower, tower.output, outputs, path)
    return open_session(path, PURPOSE, threads=1)


def _cut(tower: Tower, inner: str, outputs: list[str], path: Path) -> None:
    """Write the network with an inner tensor as its only output."""
    with optional_packages(PURPOSE):
        import onnx

    model = onnx.load(tower.file)
    if all(inner not in node.output for node in model.graph.node):
        raise InputError(f"{tower.file} has no tensor {inner!r}. Outputs: {', '.join(outputs)}.")
    del model.graph.output[:]
    kind = onnx.TensorProto.FLOAT
    model.graph.output.append(onnx.helper.make_tensor_value_info(inner, kind, None))
    make_folder(path.parent)
    with atomic_write(path) as file:
        file.write(model.SerializeToString())


def _in_threads(encode: Callable[[Any], np.ndarray], items: Any) -> Iterator[np.ndarray]:
    """Yield the features of each item in order; a single one needs no thread."""
    if len(items) == 1:
        yield encode(items[0])
        return
    n = n_threads()
    with ThreadPoolExecutor(n) as pool:
        # In slices, so that decoded images do not pile up if the network is slower.
        for start in range(0, len(items), 8 * n):
            rows = range(start, min(start + 8 * n, len(items)))
            yield from pool.map(lambda row: encode(items[row]), rows)
