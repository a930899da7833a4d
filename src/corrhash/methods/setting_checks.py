"""Checks of single settings of a method: real numbers, whole numbers, one of several words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from corrhash.errors import InputError


def check_number(name: str, value: Any, *, zero: bool) -> None:
    """A finite number above 0, or from 0 on where ``zero`` is allowed."""
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not number or not (0 <= value < np.inf) or (value == 0 and not zero):
        wanted = "0 or a number above" if zero else "a number above 0"
        raise InputError(f"{name} must be {wanted}. Got {value!r}.")


def check_count(name: str, value: Any, *, least: int = 1) -> None:
    """A whole number from ``least`` on."""
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise InputError(f"{name} must be a whole number from {least} on. Got {value!r}.")


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """One of several words."""
    if value not in choices:
        raise InputError(f"There is no {name} {value!r}. Choose {' or '.join(choices)}.")
