"""Exact k-nearest-neighbour search of codes with faiss, usearch, NumPy and PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import faiss
import numpy as np
import torch
from usearch.index import MetricKind
from usearch.index import search as usearch_search


def faiss_index(packed: np.ndarray) -> faiss.IndexBinaryFlat:
    index = faiss.IndexBinaryFlat(packed.shape[1] * 8)
    index.add(packed)
    return index


def faiss_search(
    index: faiss.IndexBinaryFlat, packed: np.ndarray, k: int, heap: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and distances, with the heap or the counter mode of the exact index."""
    index.use_heap = heap
    distances, rows = index.search(packed, k)
    return rows, distances


def exact_baselines(
    packed: np.ndarray, packed_queries: np.ndarray, k: int
) -> dict[str, Callable[[], np.ndarray]]:
    """Return functions that compute the k smallest distances exactly, on one thread."""

    def with_usearch() -> np.ndarray:
        found = usearch_search(packed, packed_queries, k, MetricKind.Hamming, exact=True, threads=1)
        return found.distances.astype(np.int32)

    def with_numpy() -> np.ndarray:
        """Search one query at a time, which keeps the distances in the cache."""
        words, queries = packed.view(np.uint64), packed_queries.view(np.uint64)
        nearest = []
        for query in queries:
            distances = np.bitwise_count(words ^ query).sum(axis=1, dtype=np.uint16)
            nearest.append(np.sort(np.partition(distances, k - 1)[:k]))
        return np.array(nearest)

    signs = [torch.from_numpy(_signs(codes)) for codes in (packed_queries, packed)]

    def with_torch() -> np.ndarray:
        """Compute inner products of signs in float32, which is faster on CPUs than int8."""
        queries, database = signs
        products = torch.topk(queries @ database.T, k, dim=1).values
        return ((queries.shape[1] - products) / 2).numpy().astype(np.int32)

    return {"usearch": with_usearch, "NumPy": with_numpy, "PyTorch": with_torch}


def _signs(packed: np.ndarray) -> np.ndarray:
    return np.where(np.unpackbits(packed, axis=1), np.float32(1), np.float32(-1))
