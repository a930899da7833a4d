"""A time limit for the operations of an index, which every engine observes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from corrhash.errors import InputError


class TimeLimitError(InputError):
    """Raised when an operation of an index takes longer than its :func:`time_limit`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds

    def __str__(self) -> str:
        return (
            f"The search took longer than {self.seconds:g} s. Use a filter with fewer comparisons, "
            "or try again later."
        )


_limit: ContextVar[tuple[float, float] | None] = ContextVar("limit", default=None)
"""The moment at which the operations of this thread must end, and the seconds until then."""


@contextmanager
def time_limit(seconds: float, elapsed: float = 0.0) -> Iterator[None]:
    """Raise a TimeLimitError inside the block once ``seconds`` have passed.

    Engines check the time while they evaluate a filter or wait for a server, so an operation ends
    soon after the limit. Only operations of the current thread are limited.

    Parameters
    ----------
    elapsed : seconds that count as passed when the block begins.
    """
    before = _limit.set((time.monotonic() + seconds - elapsed, seconds))
    try:
        check_time()
        yield
    finally:
        _limit.reset(before)


def check_time() -> None:
    """Raise an error if the time limit of this thread has passed."""
    left = seconds_left()
    if left is not None and left <= 0:
        raise time_limit_error()


def seconds_left() -> float | None:
    """Return the seconds until the time limit, which are negative after it; None without one."""
    limit = _limit.get()
    return None if limit is None else limit[0] - time.monotonic()


def time_limit_error() -> TimeLimitError:
    """Return the error about the time limit of this thread."""
    limit = _limit.get()
    assert limit is not None
    return TimeLimitError(limit[1])
