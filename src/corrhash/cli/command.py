"""The classes behind the verbs: errors that name options, and help without types of flags."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from corrhash.errors import InputError, ParameterError, validation_problem

OPTION_OF = {
    "n_bits": "bits",
    "networks.image": "backbone",
    "networks.image_frozen": "frozen",
    "networks.image_weights": "weights",
    "pseudo_labels_file": "pseudo_labels",
}
"""Options that set a parameter of another name, as arguments of the verbs."""


class _NoFlagTypes:
    """Mixin that hides the type of flags in the help, which typer prints as ``<bool>``."""

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False):
                param.metavar = ""
        return params


class Group(_NoFlagTypes, TyperGroup):
    """The ``corrhash`` command with its verbs."""


class Command(_NoFlagTypes, TyperCommand):
    """A verb of the command line, whose errors name options instead of parameters."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; refuse empty ones, which unset shell variables leave behind."""
        values, unexpected, _ = self.make_parser(ctx).parse_args(args=list(args))
        for param in self.params:
            given = values.get(param.name)
            if given == "" or (isinstance(given, (list, tuple)) and "" in given):
                raise InputError(f"{_title(param)} must not be empty.")
        if unexpected:
            raise InputError(
                f"Unexpected argument {unexpected[0]!r}. Quote values that contain spaces, or see "
                f"{ctx.command_path} --help."
            )
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            for problem in _problems(error):
                raise InputError(f"{_title(error.param)} {problem}.") from error
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the verb; errors about a parameter name the option that was given for it."""
        try:
            return super().invoke(ctx)
        except ParameterError as error:
            names = (error.name, OPTION_OF.get(error.name))
            for param in self.params:
                source = ctx.get_parameter_source(param.name)
                if param.name in names and source.name in ("COMMANDLINE", "ENVIRONMENT"):
                    raise InputError(f"{_title(param)} {error.problem}") from error
            raise


def _title(param: Any) -> str:
    """Return what the help calls a parameter: ``--bits``, or ``TEXT`` for ``[TEXT]...``."""
    if param.param_type_name == "option":
        return str(param.opts[0])
    return re.findall("[A-Z]+", param.metavar or param.name.upper())[-1]


def _problems(error: typer.BadParameter) -> Iterator[str]:
    """Yield what is wrong with a value that typer refused, if Pydantic has found it."""
    find = getattr(error.__cause__, "errors", None)
    for entry in find() if find is not None else ():
        yield validation_problem(entry)
