"""Desk: takes questions to a collection in batches, and brings the answers back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from corrhash.codes import Codes
from corrhash.collection import Collection, Match
from corrhash.errors import InputError
from corrhash.service.batching import Batches
from corrhash.service.messages import How, MatchAnswer, SearchAnswer, Side

THREADS = 2
"""One slow question, as with a filter that is new, does not hold up all others."""


@dataclass(frozen=True)
class Question:
    """Words, a picture or the key of an item, and how to search with it."""

    kind: str  # text, image or item
    value: Any
    how: How
    asked: float = field(default_factory=time.perf_counter)

    @property
    def group(self) -> tuple[Any, ...]:
        """Questions of one group can be answered together; items search by themselves."""
        alone = self.value if self.kind == "item" else None
        how = self.how
        options = (how.find, how.k, how.offset, how.where, how.radius, how.rerank)
        return (self.kind, alone, *options)


class Desk:
    """Answers questions about a collection, those that come together in one scan."""

    def __init__(self, collection: Collection, seen: Callable[[int], object]) -> None:
        self.collection = collection
        self.seen = seen
        self._batches: Batches[Question, SearchAnswer] = Batches(self.answer, THREADS)

    async def ask(self, kind: str, value: Any, how: How) -> SearchAnswer:
        """The answer to one question."""
        return await self._batches.ask(Question(kind, value, how))

    def answer(self, questions: list[Question]) -> list[SearchAnswer | Exception]:
        """The answers to some questions; for one that cannot be answered, why."""
        self.seen(len(questions))
        groups: dict[tuple[Any, ...], list[int]] = {}
        for row, question in enumerate(questions):
            groups.setdefault(question.group, []).append(row)
        answers: dict[int, SearchAnswer | Exception] = {}
        for rows in groups.values():
            of_group = self._answer_group([questions[row] for row in rows])
            answers |= dict(zip(rows, of_group, strict=True))
        return [answers[row] for row in range(len(questions))]

    def _answer_group(self, questions: list[Question]) -> list[SearchAnswer | Exception]:
        try:
            return list(self._search(questions))
        except Exception as error:
            if len(questions) == 1:
                return [error]
        # One of them is at fault, and it alone shall be told so.
        return [self._answer_group([question])[0] for question in questions]

    def _search(self, questions: list[Question]) -> list[SearchAnswer]:
        first, collection = questions[0], self.collection
        how = first.how
        options: dict[str, Any] = {"where": how.where, "radius": how.radius, "offset": how.offset}
        options["rerank"] = how.rerank
        values = [question.value for question in questions]
        # One more than asked for tells whether there is a next page.
        if first.kind == "item":
            codes = collection.code_of(first.value)
            found = [collection.search_item(first.value, how.k + 1, how.find, **options)] * len(
                values
            )
            codes = codes[[0] * len(values)]
        else:
            score = collection.score_words if first.kind == "text" else collection.score_pictures
            scores = score(values)
            codes = collection.hasher.query_codes(scores)
            found = collection.search_scores(scores, how.k + 1, how.find, codes=codes, **options)
        return self._written(questions, codes, found)

    def _written(
        self, questions: list[Question], codes: Codes, found: list[list[Match]]
    ) -> list[SearchAnswer]:
        how, collection = questions[0].how, self.collection
        ids = list({match.id: None for matches in found for match in matches})
        their = collection.codes_of(ids, how.find)
        pictured = their if how.find == "image" else collection.codes_of(ids, "image")
        answers = []
        for row, (question, matches) in enumerate(zip(questions, found, strict=True)):
            shown = [
                match_answer(match, their[match.id], match.id in pictured)
                for match in matches[: how.k]
                if match.id in their  # others were deleted meanwhile
            ]
            more = len(matches) > how.k
            answers.append(
                SearchAnswer(
                    code=hex_of(codes[row]),
                    bits=codes.n_bits,
                    find=how.find,
                    matches=shown,
                    next_offset=how.offset + how.k if more else None,
                    milliseconds=round(1000 * (time.perf_counter() - question.asked), 3),
                )
            )
        return answers

    def close(self) -> None:
        """Finish what is under way, and take nothing more."""
        self._batches.close()

    def warm_up(self) -> list[Side]:
        """With what the model can be asked; what is compiled or loaded late is so now."""
        able: list[Side] = []
        probes: dict[Side, Callable[[], Any]] = {
            "image": lambda: self.collection.score_pictures([np.full((64, 64, 3), 128, np.uint8)]),
            "text": lambda: self.collection.score_words(self.some_words()),
        }
        for kind, probe in probes.items():
            try:
                codes = Codes.from_scores(probe())
            except InputError:
                continue
            able.append(kind)
            # One query and many are scanned by different loops, each compiled at its first use.
            for n in (1, self._batches.most):
                self.collection.nearest(codes[[0] * n], 1)
        return able

    def some_words(self) -> list[str]:
        """A text that a model which reads words can read."""
        words = self.collection.reader.vocabulary
        return ["words"] if words is None else [words.words[0]]


def match_answer(match: Match, code: Codes, pictured: bool) -> MatchAnswer:
    """A match as the API tells it."""
    return MatchAnswer(
        **item_fields(match.id, match.item, pictured),
        distance=match.distance,
        score=match.score,
        code=hex_of(code),
    )


def item_fields(number: int, item: Any, pictured: bool) -> dict[str, Any]:
    """What is told of every item; where its file lies is nobody's business."""
    return {
        **{"id": number, "key": item.key, "text": item.text, "labels": list(item.labels)},
        **{"metadata": dict(item.metadata)},
        "thumbnail": f"/api/v1/items/{number}/thumbnail" if pictured else None,
    }


def hex_of(code: Codes) -> str:
    """The first of some codes in hexadecimal digits."""
    return code.packed[0].tobytes().hex()
