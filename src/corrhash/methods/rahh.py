"""Relation-aware heterogeneous hashing: separate codes per modality, and a map between them.

Within a modality, neighbours get similar codes; across modalities, a mapped image code agrees with
the codes of texts that share a label with it. Gradient descent finds the codes of the training
items within [-1, 1]; new items get theirs from their features.

Symbols of the paper: H_x and H_y are the codes of images and texts, W the map from image codes to
text codes with columns w_k, Lap_x and Lap_y the Laplacians of the neighbour graphs, S the
similarity and ρ its weights; γ, β, λ, θ1 and θ2 weight the terms of the objective

    J = γ/2n (tr(H_x^T Lap_x H_x) + tr(H_y^T Lap_y H_y))              homogeneous relations
      + β/n² Σ_k Σ_ij ρ_ij ln(1 + exp(-S_ij (H_x w_k)_i H_y,jk))      heterogeneous relations
      + λ/2 ||W - I||²                                                the map
      + θ1/2 (||mean H_x||² + ||mean H_y||²)                          balance of bits
      + θ2/4 (||offdiag(H_x^T H_x / n)||² + the same of H_y)          decorrelation of bits
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from corrhash._progress import report
from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods._linear_algebra import (
    RidgeRegression,
    column_means,
    neighbour_laplacian,
    neighbour_sums,
    project,
    unit_rows,
)
from corrhash.methods._validation import check_choice, check_count, check_number, feature_rows
from corrhash.methods.base import Hasher
from corrhash.methods.cvh import CVH
from corrhash.similarity import Similarity

CODE_STEP, MAP_STEP = 0.3, 0.1
"""Step sizes along n dJ/dH and dJ/dW."""

WEIGHTS = (
    "homogeneous_weight",
    "heterogeneous_weight",
    "decorrelation_weight",
    "balance_weight",
    "map_weight",
)
COUNTS = ("out_of_sample_neighbours", "n_neighbours", "n_rounds", "n_anchors")


class RaHH(Hasher):
    """Relation-aware heterogeneous hashing, supervised (Ou et al., KDD 2013).

    Descent starts from the projections of CVH. Bits are learned in parallel and do not correct the
    errors of one another: longer codes gain little. Time is O(n² d) for the neighbours and
    O(n_rounds n n_anchors n_bits) for the codes, memory O(n d) for d features. With
    ``out_of_sample="neighbours"`` the training features are part of the model.

    Parameters
    ----------
    n_bits : code length, at most the smaller number of varying features.
    homogeneous_weight : γ, weight of the neighbour graphs. Try 0.1, 0.3, 1.
    heterogeneous_weight : β, weight of the labels. Try 0.3, 1, 3.
    decorrelation_weight : θ2. At 0 all bits become equal, above about 5 they become random. Try
        0.3, 1, 3.
    balance_weight : θ1.
    map_weight : λ.
    map_target : ``"identity"``, or ``"zero"`` as in the paper: what the λ term draws the map to.
    pair_weights : whether similar and dissimilar pairs get the same total weight; otherwise ρ = 1.
    out_of_sample : how new items get codes. ``"neighbours"`` sums the codes of the nearest training
        items, which minimizes J for a new item; ``"ridge"`` predicts codes by ridge regression.
    ridge : of that regression, relative to the mean eigenvalue of each modality's scatter matrix.
    out_of_sample_neighbours : number of nearest training items to sum over.
    n_neighbours : number of nearest items of the same modality that an item is joined to.
    n_rounds : rounds of descent.
    n_anchors : number of random items of the other modality that stand for all of them in a round.
    seed : of the anchors.

    Attributes
    ----------
    image_codes_, text_codes_ : (n, n_bits) of -1 and +1, codes of the training items before the
        map.
    map_ : (n_bits, n_bits), W.
    image_mean_, text_mean_ : (d,) column means of the training data.
    image_rows_, text_rows_ : (n, d) training features, with ``out_of_sample="neighbours"``.
    image_projection_, text_projection_ : (d, n_bits), with ``out_of_sample="ridge"``.
    image_offset_, text_offset_ : (n_bits,), with ``out_of_sample="ridge"``.

    References
    ----------
    Mingdong Ou, Peng Cui, Fei Wang, Jun Wang, Wenwu Zhu and Shiqiang Yang. Comparing apples to
    oranges: a scalable solution with heterogeneous hashing. KDD 2013.

    Examples
    --------
    >>> from corrhash.datasets import make_pairs
    >>> pairs = make_pairs(300)
    >>> hasher = RaHH(n_bits=16, n_rounds=20).fit(pairs)
    >>> hasher.encode_text(pairs.texts)
    Codes(300 codes of 16 bits)
    """

    grid: ClassVar = {
        "heterogeneous_weight": (1.0, 3.0),
        "decorrelation_weight": (0.3, 1.0),
        "out_of_sample": ("neighbours", "ridge"),
    }

    image_codes_: np.ndarray
    text_codes_: np.ndarray
    map_: np.ndarray
    image_mean_: np.ndarray
    text_mean_: np.ndarray
    image_rows_: np.ndarray
    text_rows_: np.ndarray
    image_projection_: np.ndarray
    text_projection_: np.ndarray
    image_offset_: np.ndarray
    text_offset_: np.ndarray

    def __init__(
        self,
        n_bits: int = 16,
        *,
        homogeneous_weight: float = 0.3,
        heterogeneous_weight: float = 1.0,
        decorrelation_weight: float = 1.0,
        balance_weight: float = 1.0,
        map_weight: float = 0.01,
        map_target: str = "identity",
        pair_weights: bool = True,
        out_of_sample: str = "neighbours",
        ridge: float = 1.0,
        out_of_sample_neighbours: int = 30,
        n_neighbours: int = 10,
        n_rounds: int = 60,
        n_anchors: int = 300,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.homogeneous_weight = homogeneous_weight
        self.heterogeneous_weight = heterogeneous_weight
        self.decorrelation_weight = decorrelation_weight
        self.balance_weight = balance_weight
        self.map_weight = map_weight
        self.map_target = map_target
        self.pair_weights = pair_weights
        self.out_of_sample = out_of_sample
        self.ridge = ridge
        self.out_of_sample_neighbours = out_of_sample_neighbours
        self.n_neighbours = n_neighbours
        self.n_rounds = n_rounds
        self.n_anchors = n_anchors
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check_params()
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        assert pairs.labels is not None
        objective = self._objective(images, texts, Similarity.from_labels(pairs.labels))
        state = self._descend(self._initial_state(pairs), objective)
        self.image_codes_, self.text_codes_ = signs(state.images), signs(state.texts)
        self.map_ = state.map
        self._fit_out_of_sample(images, texts)

    def _check_params(self) -> None:
        for name in WEIGHTS:
            check_number(name, getattr(self, name), zero=True)
        check_number("ridge", self.ridge, zero=False)
        for name in COUNTS:
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        check_choice("out_of_sample", self.out_of_sample, ("neighbours", "ridge"))
        check_choice("map_target", self.map_target, ("identity", "zero"))

    def _initial_state(self, pairs: PairedDataset) -> State:
        """Return the projections of CVH, squashed into (-1, 1), and the identity as map."""
        try:
            cvh = CVH(self.n_bits).fit(pairs)
        except InputError as error:
            raise InputError(f"RaHH starts from CVH. {error}") from error
        images, texts = cvh.embed_image(pairs.images), cvh.embed_text(pairs.texts)  # of mean 0
        identity = np.eye(self.n_bits)
        return State(np.tanh(images / images.std(0)), np.tanh(texts / texts.std(0)), identity)

    def _objective(self, images: Any, texts: Any, similarity: Similarity) -> Objective:
        image_graph, text_graph = (
            neighbour_laplacian(unit_rows(table, column_means(table)), self.n_neighbours)
            for table in (images, texts)
        )
        return Objective(
            image_graph,
            text_graph,
            similarity,
            homogeneous_weight=self.homogeneous_weight,
            heterogeneous_weight=self.heterogeneous_weight,
            map_weight=self.map_weight,
            map_target=np.eye(self.n_bits) * (self.map_target == "identity"),
            balance_weight=self.balance_weight,
            decorrelation_weight=self.decorrelation_weight,
            pair_weights=self.pair_weights,
        )

    def _descend(self, state: State, objective: Objective) -> State:
        """Alternate steps in the image codes and the map with steps in the text codes."""
        rng, n = np.random.default_rng(self.seed), len(state.images)
        for done in range(self.n_rounds):
            text_anchors, image_anchors = (
                rng.choice(n, min(self.n_anchors, n), replace=False) for _ in range(2)
            )
            image_gradient, map_gradient = objective.image_and_map_gradients(state, text_anchors)
            images = np.clip(state.images - CODE_STEP * image_gradient, -1, 1)
            state = replace(state, images=images, map=state.map - MAP_STEP * map_gradient)
            text_gradient = objective.text_gradient(state, image_anchors)
            state = replace(state, texts=np.clip(state.texts - CODE_STEP * text_gradient, -1, 1))
            report("Learning RaHH codes", done + 1, self.n_rounds)
        return state

    def _fit_out_of_sample(self, images: Any, texts: Any) -> None:
        """Learn the extension of the codes to new items."""
        if self.out_of_sample == "neighbours":
            self.image_mean_, self.text_mean_ = column_means(images), column_means(texts)
            self.image_rows_ = unit_rows(images, self.image_mean_)
            self.text_rows_ = unit_rows(texts, self.text_mean_)
            return
        image, text = RidgeRegression(images, self.ridge), RidgeRegression(texts, self.ridge)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_ = image.weights(self.image_codes_)
        self.text_projection_ = text.weights(self.text_codes_)
        self.image_offset_ = self.image_codes_.mean(axis=0)
        self.text_offset_ = self.text_codes_.mean(axis=0)

    def _embed_image(self, images: Any) -> np.ndarray:
        """Return image codes mapped into the space of texts, sign(h_x) W."""
        images = feature_rows(images, "images", len(self.image_mean_))
        return signs(self._unmapped(images, "image")) @ self.map_

    def _embed_text(self, texts: Any) -> np.ndarray:
        texts = feature_rows(texts, "texts", len(self.text_mean_))
        return self._unmapped(texts, "text")

    def _unmapped(self, table: Any, modality: str) -> np.ndarray:
        """Return (n, n_bits) continuous codes in the space of the items' own modality."""

        def learned(name: str) -> np.ndarray:
            array: np.ndarray = getattr(self, f"{modality}_{name}_")
            return array

        if self.out_of_sample == "neighbours":
            rows = unit_rows(table, learned("mean"))
            n_neighbours = self.out_of_sample_neighbours
            return neighbour_sums(rows, learned("rows"), learned("codes"), n_neighbours)
        return project(table, learned("mean"), learned("projection")) + learned("offset")


@dataclass(frozen=True, eq=False)
class State:
    """An iterate of the descent: relaxed codes of both modalities, (n, n_bits), and the map."""

    images: np.ndarray  # H_x
    texts: np.ndarray  # H_y
    map: np.ndarray  # W


@dataclass(frozen=True, eq=False)
class Objective:
    """The gradients of J. Those of codes are n dJ/dH, so that step sizes do not depend on n.

    ``anchors`` are the items of the other modality over which the double sum is taken; with all of
    them the gradients are exact.
    """

    image_graph: sp.csr_array  # Lap_x
    text_graph: sp.csr_array  # Lap_y
    similarity: Similarity  # S
    homogeneous_weight: float  # γ
    heterogeneous_weight: float  # β
    map_weight: float  # λ
    map_target: np.ndarray  # I, or 0 as in the paper
    balance_weight: float  # θ1
    decorrelation_weight: float  # θ2
    pair_weights: bool

    def image_and_map_gradients(
        self, state: State, anchors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return n dJ/dH_x and dJ/dW."""
        mapped = state.images @ state.map  # Z = H_x W
        across = self._across(mapped, state.texts[anchors], anchors)  # n dJ/dZ
        pull = self.map_weight * (state.map - self.map_target)
        gradient = self._within(state.images, self.image_graph) + across @ state.map.T
        return gradient, state.images.T @ across / len(mapped) + pull

    def text_gradient(self, state: State, anchors: np.ndarray) -> np.ndarray:
        """Return n dJ/dH_y."""
        across = self._across(state.texts, state.images[anchors] @ state.map, anchors)
        return self._within(state.texts, self.text_graph) + across

    def _within(self, codes: np.ndarray, graph: sp.csr_array) -> np.ndarray:
        """Return the terms of one modality: γ Lap H + θ1 mean H + θ2 H offdiag(H^T H / n)."""
        overlaps = codes.T @ codes / len(codes)
        np.fill_diagonal(overlaps, 0)
        smooth = self.homogeneous_weight * (graph @ codes)
        balance = self.balance_weight * codes.mean(axis=0)
        return smooth + balance + self.decorrelation_weight * codes @ overlaps

    def _across(self, codes: np.ndarray, others: np.ndarray, anchors: np.ndarray) -> np.ndarray:
        """Return β G h / |anchors| for each bit, with G_ij = -ρ_ij S_ij σ(-S_ij z_i h_j).

        For similar pairs G = -ρ σ(-zh), for dissimilar pairs G = ρ σ(zh) = ρ - ρ σ(-zh): one
        exponential serves both. Single precision is several times faster.
        """
        similar = self.similarity.block(columns=anchors) > 0  # S is symmetric
        weights = self._pair_weights(similar)  # ρ, (n, anchors)
        apart = np.where(similar, np.float32(0), weights)
        z, h = codes.astype(np.float32), others.astype(np.float32)
        gradient = (apart @ h).astype(np.float64)
        share = np.empty_like(weights)
        for bit in range(h.shape[1]):
            np.exp(np.multiply.outer(z[:, bit], h[:, bit], out=share), out=share)
            share += 1
            np.divide(weights, share, out=share)  # ρ σ(-zh)
            gradient[:, bit] -= share @ h[:, bit]
        return self.heterogeneous_weight * gradient / len(anchors)

    def _pair_weights(self, similar: np.ndarray) -> np.ndarray:
        """Return ρ: the same total weight for similar and for dissimilar pairs, or 1."""
        if not self.pair_weights:
            return np.ones(similar.shape, dtype=np.float32)
        p = self._share_similar
        return np.where(similar, np.float32(0.5 / p), np.float32(0.5 / (1 - p)))

    @cached_property
    def _share_similar(self) -> float:
        """The share of similar pairs, clipped to keep the weights finite."""
        return float(np.clip(self.similarity.share_similar, 0.001, 0.999))


def signs(continuous: np.ndarray) -> np.ndarray:
    """Return +1 for values above 0, and -1 otherwise."""
    return np.where(continuous > 0, np.int8(1), np.int8(-1))
