"""Progress of long work: the library says how far it is, the caller decides how to show it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One report: what is being done, how much of it, and numbers worth showing beside it."""

    task: str
    done: int
    total: int
    numbers: dict[str, Any] = field(default_factory=dict)


_listener: ContextVar[Callable[[Step], None] | None] = ContextVar("listener", default=None)


def report(task: str, done: int, total: int, **numbers: Any) -> None:
    """Say that ``done`` of ``total`` parts of a task are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(Step(task, done, total, numbers))


@contextmanager
def listening(listener: Callable[[Step], None]) -> Iterator[None]:
    """Hand every report made inside the block to ``listener``.

    >>> with listening(lambda step: print(f"{step.task}: {step.done} of {step.total}")):
    ...     report("counting sheep", 1, 2)
    counting sheep: 1 of 2
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
