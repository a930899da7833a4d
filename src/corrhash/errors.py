"""The error for input that a user can mend: what was wrong, the value seen, the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Raised for a user's mistake; commands print its sentence without a traceback."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a sentence about a name that nobody knows; nothing where no other is near.

    >>> did_you_mean("boats", ["boat", "goats", "tree"])
    " Did you mean 'boat' or 'goats'?"
    """
    near = " or ".join(repr(other) for other in get_close_matches(name, list(known)))
    return f" Did you mean {near}?" if near else ""
