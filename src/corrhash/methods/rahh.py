"""Relation-aware heterogeneous hashing: codes of its own for each side, and a map between them.

Within a side, neighbours should have similar codes; across sides, a mapped image code should agree
with the codes of the texts that share a label with it. The codes of the training items are
descended upon directly, within [-1, 1]; new items then get theirs from their features.

In the paper's letters: H_x and H_y the codes of images and texts, W the map from image codes to
text codes with columns w_k, Lap_x and Lap_y the Laplacians of the neighbour graphs, S the
similarity and ρ its weights; γ, β, λ, θ1 and θ2 are the weights of the terms of

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

from corrhash.datasets.base import PairedDataset
from corrhash.errors import InputError
from corrhash.methods.base import Hasher, feature_rows
from corrhash.methods.covariance import column_means, project
from corrhash.methods.cvh import CVH
from corrhash.methods.neighbours import neighbour_laplacian, neighbour_vote, unit_rows
from corrhash.methods.ridge_map import RidgeMap
from corrhash.methods.setting_checks import check_choice, check_count, check_number
from corrhash.progress import report
from corrhash.relevance import Similarity

CODE_STEP, MAP_STEP = 0.3, 0.1  # along n dJ/dH and dJ/dW
NEW_ITEMS = ("vote", "ridge")


class RaHH(Hasher):
    """Relation-aware heterogeneous hashing, supervised (Ou et al., KDD 2013).

    Needs labels and aligned pairs of feature vectors and tag occurrences. Relatives: CVH, from
    which it starts; IMH, which has the same neighbourhoods and no labels; SePH, which also finds
    codes of the training items first. Bits are learned side by side and not against one another's
    mistakes, so more of them bring little.

    Costs O(n^2 d) time for the neighbours and O(n_rounds n n_anchors n_bits) for the codes, with
    O(n d) memory for d columns. With votes the training items are part of the model.

    Parameters
    ----------
    n_bits : length of the codes; at most the smaller number of (varying) columns.
    homogeneous : weight of the neighbour graphs, the paper's γ. Try: 0.1, 0.3, 1.
    heterogeneous : weight of the labels, β. Try: 0.3, 1, 3.
    decorrelation : keeps bits apart, θ2; without it all become the same, above some 5 they become
        random. Try: 0.3, 1, 3.
    balance : keeps bits balanced, θ1.
    map_weight : keeps the map near its target, λ.
    map_target : ``"identity"``, or ``"zero"`` as published.
    pair_weights : give similar and dissimilar pairs half of the say each; otherwise ρ is 1.
    new_items : ``"vote"`` lets the nearest training items vote, which minimises J for a new item;
        ``"ridge"`` predicts codes by ridge regression onto those of the training items.
    ridge : of the regression, relative to the mean eigenvalue of each side's scatter matrix.
    n_voters : how many training items vote.
    n_neighbours : to how many nearest items of its side an item is joined.
    n_rounds, n_anchors : rounds of descent, and how many random items of the other side stand for
        all of them in a round.
    seed : of the anchors.

    Attributes
    ----------
    image_codes_, text_codes_ : (n, n_bits) of -1 and +1, codes of the training items before the
        map.
    map_ : (n_bits, n_bits), the paper's W.
    image_mean_, text_mean_ : (d,) means of the training columns.

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
        "heterogeneous": (1.0, 3.0),
        "decorrelation": (0.3, 1.0),
        "new_items": ("vote", "ridge"),
    }

    image_codes_: np.ndarray
    text_codes_: np.ndarray
    map_: np.ndarray
    image_mean_: np.ndarray
    text_mean_: np.ndarray
    image_projection_: np.ndarray  # these four with ridge
    text_projection_: np.ndarray
    image_offset_: np.ndarray
    text_offset_: np.ndarray
    image_rows_: np.ndarray  # these two with votes
    text_rows_: np.ndarray

    def __init__(
        self,
        n_bits: int = 16,
        *,
        homogeneous: float = 0.3,
        heterogeneous: float = 1.0,
        decorrelation: float = 1.0,
        balance: float = 1.0,
        map_weight: float = 0.01,
        map_target: str = "identity",
        pair_weights: bool = True,
        new_items: str = "vote",
        ridge: float = 1.0,
        n_voters: int = 30,
        n_neighbours: int = 10,
        n_rounds: int = 60,
        n_anchors: int = 300,
        seed: int = 0,
    ) -> None:
        self.n_bits = n_bits
        self.homogeneous = homogeneous
        self.heterogeneous = heterogeneous
        self.decorrelation = decorrelation
        self.balance = balance
        self.map_weight = map_weight
        self.map_target = map_target
        self.pair_weights = pair_weights
        self.new_items = new_items
        self.ridge = ridge
        self.n_voters = n_voters
        self.n_neighbours = n_neighbours
        self.n_rounds = n_rounds
        self.n_anchors = n_anchors
        self.seed = seed

    def _fit(self, pairs: PairedDataset, validation: PairedDataset | None) -> None:
        self._check()
        images = feature_rows(pairs.images, "images")
        texts = feature_rows(pairs.texts, "texts")
        assert pairs.labels is not None
        state = self._descend(self._start(pairs), self._objective(images, texts, pairs.labels))
        self.image_codes_, self.text_codes_ = signs(state.images), signs(state.texts)
        self.map_ = state.map
        self._prepare_new_items(images, texts)

    def _check(self) -> None:
        for name in ("homogeneous", "heterogeneous", "decorrelation", "balance", "map_weight"):
            check_number(name, getattr(self, name), zero=True)
        check_number("ridge", self.ridge, zero=False)
        for name in ("n_voters", "n_neighbours", "n_rounds", "n_anchors"):
            check_count(name, getattr(self, name))
        check_count("seed", self.seed, least=0)
        check_choice("new_items", self.new_items, NEW_ITEMS)
        check_choice("map_target", self.map_target, ("identity", "zero"))

    def _start(self, pairs: PairedDataset) -> State:
        """The projections of CVH, squashed into (-1, 1), and the identity as map."""
        try:
            cvh = CVH(self.n_bits).fit(pairs)
        except InputError as error:
            raise InputError(f"RaHH starts from CVH. {error}") from error
        images, texts = cvh.score_image(pairs.images), cvh.score_text(pairs.texts)  # of mean 0
        identity = np.eye(self.n_bits)
        return State(np.tanh(images / images.std(0)), np.tanh(texts / texts.std(0)), identity)

    def _objective(self, images: Any, texts: Any, labels: Any) -> Objective:
        image_graph, text_graph = (
            neighbour_laplacian(unit_rows(table, column_means(table)), self.n_neighbours)
            for table in (images, texts)
        )
        return Objective(
            image_graph,
            text_graph,
            Similarity.from_labels(labels),
            homogeneous=self.homogeneous,
            heterogeneous=self.heterogeneous,
            map_weight=self.map_weight,
            map_target=np.eye(self.n_bits) * (self.map_target == "identity"),
            balance=self.balance,
            decorrelation=self.decorrelation,
            pair_weights=self.pair_weights,
        )

    def _descend(self, state: State, objective: Objective) -> State:
        """Step down in the image codes and the map, then in the text codes, round by round."""
        rng, n = np.random.default_rng(self.seed), len(state.images)
        for done in range(self.n_rounds):
            anchors, others = (
                rng.choice(n, min(self.n_anchors, n), replace=False) for _ in range(2)
            )
            image_slope, map_slope = objective.image_and_map_slopes(state, anchors)
            images = np.clip(state.images - CODE_STEP * image_slope, -1, 1)
            state = replace(state, images=images, map=state.map - MAP_STEP * map_slope)
            text_slope = objective.text_slope(state, others)
            state = replace(state, texts=np.clip(state.texts - CODE_STEP * text_slope, -1, 1))
            report("Learning RaHH codes", done + 1, self.n_rounds)
        return state

    def _prepare_new_items(self, images: Any, texts: Any) -> None:
        """Learn what gives new items their codes."""
        if self.new_items == "vote":
            self.image_mean_, self.text_mean_ = column_means(images), column_means(texts)
            self.image_rows_ = unit_rows(images, self.image_mean_)
            self.text_rows_ = unit_rows(texts, self.text_mean_)
            return
        image, text = RidgeMap(images, self.ridge), RidgeMap(texts, self.ridge)
        self.image_mean_, self.text_mean_ = image.mean, text.mean
        self.image_projection_ = image.weights(self.image_codes_)
        self.text_projection_ = text.weights(self.text_codes_)
        self.image_offset_ = self.image_codes_.mean(axis=0)
        self.text_offset_ = self.text_codes_.mean(axis=0)

    def _score_image(self, images: Any) -> np.ndarray:
        """Image codes in the space of texts, sg(h_x) W: for both directions."""
        images = feature_rows(images, "images", len(self.image_mean_))
        return signs(self._own_scores(images, "image")) @ self.map_

    def _score_text(self, texts: Any) -> np.ndarray:
        texts = feature_rows(texts, "texts", len(self.text_mean_))
        return self._own_scores(texts, "text")

    def _own_scores(self, table: Any, side: str) -> np.ndarray:
        """(n, n_bits) scores of items in the space of their own side."""
        mean = getattr(self, f"{side}_mean_")
        if self.new_items == "vote":
            voters, codes = getattr(self, f"{side}_rows_"), getattr(self, f"{side}_codes_")
            return neighbour_vote(unit_rows(table, mean), voters, codes, self.n_voters)
        projection, offset = getattr(self, f"{side}_projection_"), getattr(self, f"{side}_offset_")
        return project(table, mean, projection) + offset


@dataclass(frozen=True, eq=False)
class State:
    """A point of the descent: relaxed codes of both sides (n, n_bits), and the map."""

    images: np.ndarray  # H_x
    texts: np.ndarray  # H_y
    map: np.ndarray  # W


@dataclass(frozen=True, eq=False)
class Objective:
    """The slopes of J. Slopes of codes are n dJ/dH, so that steps do not depend on n.

    ``anchors`` are the items of the other side over which the double sum is taken; with all of
    them the slopes are exact.
    """

    image_graph: sp.csr_array  # Lap_x
    text_graph: sp.csr_array  # Lap_y
    similarity: Similarity  # S
    homogeneous: float  # γ
    heterogeneous: float  # β
    map_weight: float  # λ
    map_target: np.ndarray  # I, or 0 as published
    balance: float  # θ1
    decorrelation: float  # θ2
    pair_weights: bool

    def image_and_map_slopes(
        self, state: State, anchors: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """n dJ/dH_x and dJ/dW."""
        mapped = state.images @ state.map  # Z = H_x W
        across = self._across(mapped, state.texts[anchors], anchors)  # n dJ/dZ
        pull = self.map_weight * (state.map - self.map_target)
        slope = self._own(state.images, self.image_graph) + across @ state.map.T
        return slope, state.images.T @ across / len(mapped) + pull

    def text_slope(self, state: State, anchors: np.ndarray) -> np.ndarray:
        """n dJ/dH_y."""
        across = self._across(state.texts, state.images[anchors] @ state.map, anchors)
        return self._own(state.texts, self.text_graph) + across

    def _own(self, codes: np.ndarray, graph: sp.csr_array) -> np.ndarray:
        """The terms within one side: γ Lap H + θ1 mean H + θ2 H offdiag(H^T H / n)."""
        overlaps = codes.T @ codes / len(codes)
        np.fill_diagonal(overlaps, 0)
        smooth = self.homogeneous * (graph @ codes)
        return smooth + self.balance * codes.mean(axis=0) + self.decorrelation * codes @ overlaps

    def _across(self, codes: np.ndarray, others: np.ndarray, anchors: np.ndarray) -> np.ndarray:
        """β G h / |anchors| of each bit, with G_ij = -ρ_ij S_ij σ(-S_ij z_i h_j).

        For similar pairs G = -ρ σ(-zh), for dissimilar ones G = ρ σ(zh) = ρ - ρ σ(-zh): one
        exponential serves both. Single precision makes it several times as fast.
        """
        similar = self.similarity.block(columns=anchors) > 0  # S is symmetric
        weights = self._pair_weights(similar)  # ρ, (n, anchors)
        apart = np.where(similar, np.float32(0), weights)
        z, h = codes.astype(np.float32), others.astype(np.float32)
        slope = (apart @ h).astype(np.float64)
        share = np.empty_like(weights)
        for bit in range(h.shape[1]):
            np.exp(np.multiply.outer(z[:, bit], h[:, bit], out=share), out=share)
            share += 1
            np.divide(weights, share, out=share)  # ρ σ(-zh)
            slope[:, bit] -= share @ h[:, bit]
        return self.heterogeneous * slope / len(anchors)

    def _pair_weights(self, similar: np.ndarray) -> np.ndarray:
        """ρ: half of the say for similar and half for dissimilar pairs, or 1 for each."""
        if not self.pair_weights:
            return np.ones(similar.shape, dtype=np.float32)
        p = self._share_similar
        return np.where(similar, np.float32(0.5 / p), np.float32(0.5 / (1 - p)))

    @cached_property
    def _share_similar(self) -> float:
        """The share of similar pairs, kept away from 0 and 1, where weights would be endless."""
        return float(np.clip(self.similarity.share_similar, 0.001, 0.999))


def signs(scores: np.ndarray) -> np.ndarray:
    """+1 where a score is above 0, and -1 elsewhere."""
    return np.where(scores > 0, np.int8(1), np.int8(-1))
