"""A table of names whose values are imported only when one of them is asked for."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from corrhash.errors import InputError


class UnknownNameError(InputError, KeyError):
    """A name that a table does not have; a KeyError too, as for any mapping."""

    __str__ = ValueError.__str__  # that of KeyError would put the sentence into quotes


class LazyTable(Mapping[str, Any]):
    """Maps names to ``"module:attribute"`` strings and loads the attribute on use.

    >>> table = LazyTable("constant", {"pi": "math:pi"})
    >>> table["pi"]
    3.141592653589793
    >>> table["e"]
    Traceback (most recent call last):
    corrhash.lazy_table.UnknownNameError: There is no constant 'e'. Choose one of: pi.
    """

    def __init__(self, kind: str, places: dict[str, str]) -> None:
        self.kind = kind
        self.places = places

    def __getitem__(self, name: str) -> Any:
        if name not in self.places:
            raise UnknownNameError(
                f"There is no {self.kind} {name!r}. Choose one of: {', '.join(self)}."
            )
        return load_attribute(self.places[name])

    def __contains__(self, name: object) -> bool:
        return name in self.places

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)


def load_attribute(place: str) -> Any:
    """What stands at ``"package.module:Name"``."""
    module, _, attribute = place.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"Cannot load {place!r}: {error}. Write it as package.module:Name, "
            "with the package on Python's path."
        ) from error
