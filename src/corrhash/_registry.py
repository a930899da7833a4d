"""Names that import their values on first use: registries and lazy module attributes."""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import Any

from corrhash.errors import InputError, MissingPackageError, did_you_mean, optional_packages


class UnknownNameError(InputError, KeyError):
    """Raised for a name that is not in a registry; also a KeyError, as for any mapping."""

    __str__ = ValueError.__str__  # KeyError would print the message in quotes


class Registry(Mapping[str, Any]):
    """Maps names to ``"module:attribute"`` strings and loads the attribute on use.

    >>> table = Registry("constant", {"pi": "math:pi"})
    >>> table["pi"]
    3.141592653589793
    >>> table["e"]
    Traceback (most recent call last):
    corrhash._registry.UnknownNameError: Unknown constant 'e'. Choose one of: pi.
    """

    def __init__(self, kind: str, import_paths: dict[str, str], others: str = "") -> None:
        self.kind = kind
        self.import_paths = import_paths
        self.others = others  # ends the error: how to name what is not in the registry

    def __getitem__(self, name: str) -> Any:
        if name not in self.import_paths:
            raise UnknownNameError(
                f"Unknown {self.kind} {name!r}.{did_you_mean(str(name), self)} "
                f"Choose one of: {', '.join(self)}.{self.others}"
            )
        return load_attribute(self.import_paths[name], f"The {self.kind} {name!r}")

    def __contains__(self, name: object) -> bool:
        return name in self.import_paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.import_paths)

    def __len__(self) -> int:
        return len(self.import_paths)


def load_attribute(import_path: str, purpose: str = "") -> Any:
    """Import the object at ``"package.module:Name"``.

    If an optional package is missing, the error message starts with ``purpose``.
    """
    module, _, attribute = import_path.partition(":")
    try:
        with optional_packages(purpose or import_path):
            return getattr(import_module(module), attribute)
    except MissingPackageError:
        raise
    except (ImportError, AttributeError, ValueError) as error:
        raise InputError(
            f"Cannot load {import_path!r}: {error}. The expected form is package.module:Name. If "
            "the module is in a folder of yours, set PYTHONPATH to this folder."
        ) from error


def lazy_attributes(
    module: str, exports: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module that imports its names on first use.

    Parameters
    ----------
    module : name of the module that exports the names, its ``__name__``.
    exports : modules to import from, each with the names that they define.
    """
    homes = {name: home for home, names in exports.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        with optional_packages(f"{module}.{name}"):
            value = getattr(import_module(homes[name]), name)
        setattr(sys.modules[module], name, value)  # the next access does not come here
        return value

    def __dir__() -> list[str]:
        return sorted({*vars(sys.modules[module]), *homes})

    return __getattr__, __dir__
