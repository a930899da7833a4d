"""Fine-tuning of a fitted network method on relevance judgments, without forgetting.

Judgments are few. Mostly they teach how broad relevance is: which share of the items at a given
cosine of codes fits. A logistic regression of the verdicts on the cosines of the original codes
learns this share; random items are added as items that do not fit. The networks are trained to
reproduce its probabilities on image-text pairs of the collection. A second loss ranks the judged
items of each query: those that fit above the others.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from corrhash._progress import report
from corrhash.codes import unit_rows
from corrhash.errors import optional_packages
from corrhash.losses import cosine_likelihood_loss, cosines, with_sign
from corrhash.methods.network_hasher import NetworkHasher
from corrhash.networks.inputs import Inputs, VectorInputs, is_embedding
from corrhash.networks.preprocessing import item_keys

if TYPE_CHECKING:
    from torch import Tensor

NO_ROW = -1

RANDOM_ITEMS = 10
"""Random items of each query that count as not fitting."""

DIGITS = 4
"""Decimals of scores that count in a ranking."""

DEFAULT_RELEVANCE = 6.0, -4.0
"""Slope and intercept of the logit of relevance if judgments do not define it."""


class JudgedItem(NamedTuple):
    """A judged item: the rows of its image and its text, -1 for none, and 1 or -1.

    ``new`` judgments were made since the current model was trained.
    """

    image: int
    text: int
    verdict: int
    new: bool = True


@dataclass(frozen=True)
class JudgedQuery:
    """A query and what was judged about it.

    Parameters
    ----------
    modality : ``text`` or ``image``.
    row : row of the query among the texts or the images.
    items : its judged items.
    """

    modality: str
    row: int
    items: Sequence[JudgedItem]


@dataclass(frozen=True, eq=False)
class JudgedData:
    """Feature vectors of images and texts, and judgments that refer to their rows.

    Parameters
    ----------
    images : (n, d) features of items and of query images.
    texts : (m, t) vectors of the texts of items and of queries.
    pairs : (p, 2) rows of the image and of the text of items that have both.
    queries : the judged queries.
    """

    images: Any
    texts: Any
    pairs: NDArray[np.int64]
    queries: Sequence[JudgedQuery]


@dataclass(frozen=True)
class FineTuning:
    """Settings of the fine-tuning, chosen with a simulated user on captions of MS-COCO.

    Parameters
    ----------
    steps : optimizer steps.
    learning_rate : the highest one; it rises for a tenth of the steps and falls to zero.
    n_pairs, n_queries : pairs and judged queries of a step.
    ranking_weight : weight of the ranking loss for 100 judged queries; it is proportional to their
        number up to 1,000, because few queries are soon memorized.
    temperature : of the ranking loss.
    cosine_scale : logit of a cosine of 1 in the loss on pairs.
    seed : of the order and of dropout.
    """

    steps: int = 300
    learning_rate: float = 1e-3
    n_pairs: int = 64
    n_queries: int = 16
    ranking_weight: float = 0.01
    temperature: float = 0.12
    cosine_scale: float = 4.0
    seed: int = 0


def fine_tune(
    hasher: NetworkHasher,
    data: JudgedData,
    settings: FineTuning,
    title: str = "Fine-tuning",
) -> NetworkHasher:
    """Return a copy of a fitted method, trained further on judgments; the original stays."""
    with optional_packages("Fine-tuning"):
        import torch

    new = copy.copy(hasher)
    for name in ("image_network_", "text_network_", "_vector_networks"):
        vars(new).pop(name, None)  # they are made from the arrays again
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        _train(new, data, settings, title)
    new._copy_arrays()
    images, texts = data.images, data.texts
    if len(data.pairs):
        images, texts = images[data.pairs[:, 0]], texts[data.pairs[:, 1]]
    new.learn_references(images, texts)
    return new


def _train(hasher: NetworkHasher, data: JudgedData, settings: FineTuning, title: str) -> None:
    import torch

    networks = {"image": hasher.image_network_.train(), "text": hasher.text_network_.train()}
    dropped = 0.0 if is_embedding(data.texts) else hasher.networks.term_dropout
    inputs: dict[str, Inputs] = {
        "image": VectorInputs(data.images),
        "text": VectorInputs(data.texts, dropped),
    }
    weights = [p for net in networks.values() for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=settings.learning_rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.learning_rate, total_steps=settings.steps, pct_start=0.1
    )
    rng = np.random.default_rng(settings.seed)
    u0 = unit_rows(hasher.embed_image(data.images[data.pairs[:, 0]]))
    v0 = unit_rows(hasher.embed_text(data.texts[data.pairs[:, 1]]))
    slope, intercept = learn_relevance(hasher, data, u0, rng)
    for step in range(settings.steps):
        encode = _Encoder(networks, inputs, settings.seed, step)
        loss = torch.zeros(())
        chosen = rng.permutation(len(data.pairs))[: settings.n_pairs]
        if len(chosen) > 1:
            probable = expit(slope * u0[chosen] @ v0[chosen].T + intercept)
            np.fill_diagonal(probable, 1)  # an image and its own text
            u = encode("image", data.pairs[chosen, 0])
            v = encode("text", data.pairs[chosen, 1])
            similarity = torch.as_tensor(2 * probable - 1, dtype=u.dtype)
            loss = loss + cosine_likelihood_loss(
                u, v, similarity, settings.cosine_scale, balanced="item"
            )
        some = rng.permutation(len(data.queries))[: settings.n_queries]
        ranking = _ranking_loss(encode, [data.queries[at] for at in some], settings.temperature)
        loss = loss + settings.ranking_weight * min(len(data.queries), 1000) / 100 * ranking
        if loss.requires_grad:  # else neither pairs nor queries to rank
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        report(title, step + 1, settings.steps, loss=float(loss.detach()))


def learn_relevance(
    hasher: NetworkHasher, data: JudgedData, items: NDArray[np.float64], rng: np.random.Generator
) -> tuple[float, float]:
    """Return slope and intercept of the logit of relevance as a function of the cosine.

    ``items`` are unit codes of images, from which items that do not fit are drawn for each query.
    """
    from sklearn.linear_model import LogisticRegression

    of_images, of_texts = _codes_of(hasher, data)
    cosines, fits = list[float](), list[bool]()
    for query in data.queries:
        of_query = (of_texts if query.modality == "text" else of_images)[query.row]
        judged = [_code_of(item, of_images, of_texts) for item in query.items]
        random = items[rng.integers(0, len(items), RANDOM_ITEMS)] if len(items) else items
        others = np.concatenate([unit_rows(np.stack(judged)), random])
        cosines += (others @ unit_rows(of_query[None])[0]).tolist()
        fits += [item.verdict > 0 for item in query.items] + [False] * len(random)
    if len({*fits}) < 2:
        return DEFAULT_RELEVANCE
    model = LogisticRegression(C=10).fit(np.array(cosines)[:, None], fits)
    slope, intercept = float(model.coef_[0, 0]), float(model.intercept_[0])
    return (slope, intercept) if slope > 0 else DEFAULT_RELEVANCE


@dataclass(frozen=True)
class _Encoder:
    """Computes continuous codes with gradients; dropout and noise depend on step and row."""

    networks: dict[str, Any]
    inputs: dict[str, Inputs]
    seed: int
    step: int

    def __call__(self, modality: str, rows: NDArray[np.int64]) -> Tensor:
        import torch

        from corrhash.networks.layers import seeded_by_item
        from corrhash.training.trainer import KEY_OFFSETS

        draw = {"seed": self.seed, "epoch": self.step}
        values = torch.as_tensor(self.inputs[modality].training_batch(rows, **draw))
        with seeded_by_item(item_keys(rows, **draw) + KEY_OFFSETS[modality]):
            codes: Tensor = self.networks[modality](values)
        return codes


def _ranking_loss(encode: _Encoder, queries: Sequence[JudgedQuery], temperature: float) -> Tensor:
    """Return the mean over queries of -ln of the share of each fitting item in a softmax.

    The softmax is over the cosines of the query and the signs of its judged items.
    """
    import torch

    ranked = [query for query in queries if {item.verdict for item in query.items} == {1, -1}]
    if not ranked:
        return torch.zeros(())
    asked = _encode(encode, [(query.modality, query.row) for query in ranked])
    of_item = [(number, item) for number, query in enumerate(ranked) for item in query.items]
    found = _encode(
        encode,
        [("image", i.image) if i.image != NO_ROW else ("text", i.text) for _, i in of_item],
    )
    own = torch.tensor([[number == n for n, _ in of_item] for number in range(len(ranked))])
    fits = own & torch.tensor([item.verdict > 0 for _, item in of_item])
    logits = cosines(asked, with_sign(found)) / temperature  # (queries, items)
    total = logits.masked_fill(~own, -torch.inf).logsumexp(dim=1, keepdim=True)
    terms = ((total - logits) * fits).sum(dim=1) / fits.sum(dim=1)
    return terms.mean()


def _encode(encode: _Encoder, inputs: Sequence[tuple[str, int]]) -> Tensor:
    """Return the codes of rows of both modalities, in their order."""
    import torch

    parts, order = list[Any](), list[int]()
    for modality in ("image", "text"):
        at = [number for number, one in enumerate(inputs) if one[0] == modality]
        if at:
            parts.append(encode(modality, np.array([inputs[number][1] for number in at])))
            order += at
    return torch.cat(parts)[torch.as_tensor(np.argsort(order))]


def _code_of(
    item: JudgedItem, of_images: dict[int, NDArray[Any]], of_texts: dict[int, NDArray[Any]]
) -> NDArray[Any]:
    """Return the continuous code that an item is found by: of its image, else of its text."""
    return of_images[item.image] if item.image != NO_ROW else of_texts[item.text]


def judged_scores(
    hasher: NetworkHasher, data: JudgedData
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the score of each judged pair of a query and an item, and whether the item fits.

    The score is that of a search: the cosine of the query's continuous code and the signs of the
    item's. The texts of fitting items are further queries: what fits a query fits them too. Few
    judgments thus give many pairs, most of which were not found by the current model.
    """
    of_images, of_texts = _codes_of(hasher, data)
    scores, fits = [np.empty(0)], list[bool]()
    for query in data.queries:
        of_query = (of_texts if query.modality == "text" else of_images)[query.row]
        asked = [(of_query, -1)]
        asked += [
            (of_texts[item.text], at)
            for at, item in enumerate(query.items)
            if item.verdict > 0 and item.text != NO_ROW
        ]
        signs = np.where([_code_of(item, of_images, of_texts) > 0 for item in query.items], 1, -1)
        for continuous, own in asked:
            others = [at for at in range(len(query.items)) if at != own]
            scores.append(signs[others] @ unit_rows(continuous[None])[0] / hasher.n_bits**0.5)
            fits += [query.items[at].verdict > 0 for at in others]
    return np.concatenate(scores).round(DIGITS), np.array(fits, dtype=bool)


def share_in_order(scores: NDArray[np.float64], fits: NDArray[np.bool_]) -> float:
    """Return how often what fits has a higher score than what does not; equal ones count half.

    >>> share_in_order(np.array([0.9, 0.2, 0.5, 0.2]), np.array([True, True, False, False]))
    0.625
    """
    others = np.sort(scores[~fits])
    below = np.searchsorted(others, scores[fits], "left")
    equal = np.searchsorted(others, scores[fits], "right") - below
    return float((below + equal / 2).mean() / len(others))


def _codes_of(
    hasher: NetworkHasher, data: JudgedData
) -> tuple[dict[int, NDArray[Any]], dict[int, NDArray[Any]]]:
    """Return the continuous codes of the images and texts of judged queries and items, by row."""
    found = []
    for modality, values, embed in (
        ("image", data.images, hasher.embed_image),
        ("text", data.texts, hasher.embed_text),
    ):
        rows = {query.row for query in data.queries if query.modality == modality}
        rows |= {getattr(item, modality) for query in data.queries for item in query.items}
        used = sorted(rows - {NO_ROW})
        found.append(dict(zip(used, embed(values[used]), strict=True)) if used else {})
    return found[0], found[1]
