"""What a command line says of the data."""

import pytest

from corrhash import InputError
from corrhash.datasets import TextOptions
from corrhash.experiments.data_options import data_options, text_options


def test_a_root_is_kept_with_its_full_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = data_options("coco", "data", ["captions=first", "n_query=5"])
    assert options == {"captions": "first", "n_query": 5, "root": str(tmp_path / "data")}
    assert data_options("coco", None, []) == {}


def test_what_texts_become_is_read_from_words():
    assert text_options([]) is None
    asked = text_options(["form=tags", "top=1000", "stop_words=true", "stem=english"])
    assert asked == TextOptions("tags", top=1000, stop_words=True, stem="english")


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (data_options, ("coco", None, ["root=x"]), "root has an option of its own: use --root"),
        (data_options, ("holiday", "x", []), "holiday is a place of its own"),
        (text_options, (["tops=3"],), "no 'tops'. It has: form, min_count, top"),
        (text_options, (["top=0"],), "top must be a whole number, 1 or more. Got 0"),
        (text_options, (["form=letters"],), "read as words, tags or strings. Got 'letters'"),
    ],
)
def test_mistakes_are_told(function, arguments, message):
    with pytest.raises(InputError, match=message):
        function(*arguments)
