"""Desk: answers in a batch are those that each question gets alone."""

import pytest

from corrhash.errors import InputError
from corrhash.service.desk import Desk, Question
from corrhash.service.messages import How


def plain(answer):
    return answer.model_dump(exclude={"milliseconds"})


def test_answers_do_not_depend_on_who_else_asks(collection, scenes):
    desk = Desk(collection, lambda size: None)
    how, other = How(k=5), How(k=3, find="text", where="row > 9")
    questions = [
        Question("text", "sea boat", how),
        Question("image", scenes.images[2], how),
        Question("text", "a house", how),
        Question("item", "scene 3", other),
        Question("text", "a house", other),
    ]
    together = desk.answer(questions)
    alone = [desk.answer([question])[0] for question in questions]
    assert [plain(answer) for answer in together] == [plain(answer) for answer in alone]


def test_an_unknown_word_is_told_to_its_asker_alone(collection):
    desk = Desk(collection, lambda size: None)
    words = ["sea", "xyzzy", "boat"]
    sea, unknown, boat = desk.answer([Question("text", word, How()) for word in words])
    assert isinstance(unknown, InputError)
    assert "xyzzy" in str(unknown)
    assert sea.matches
    assert boat.matches


def test_what_batches_need_is_compiled_before_the_first_question(collection, monkeypatch):
    sizes = set()
    monkeypatch.setattr(collection, "nearest", lambda codes, k: sizes.add(len(codes)))
    desk = Desk(collection, lambda size: None)
    assert desk.warm_up() == ["image", "text"]
    assert sizes == {1, 64}


@pytest.mark.parametrize("size", [1, 3])
def test_sizes_of_batches_are_reported(collection, size):
    seen = []
    Desk(collection, seen.append).answer([Question("text", "sea", How())] * size)
    assert seen == [size]
