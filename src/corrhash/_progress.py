"""Progress reports: long-running functions report, the caller decides how to show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Step:
    """One report: ``done`` of ``total`` parts of a task, with metrics to show beside it."""

    task: str
    done: int
    total: int
    metrics: dict[str, Any] = field(default_factory=dict)


_listener: ContextVar[Callable[[Step], None] | None] = ContextVar("listener", default=None)


def report(task: str, done: int, total: int, **metrics: Any) -> None:
    """Report that ``done`` of ``total`` parts of a task are finished."""
    listener = _listener.get()
    if listener is not None:
        listener(Step(task, done, total, metrics))


@contextmanager
def listening(listener: Callable[[Step], None]) -> Iterator[None]:
    """Pass every report made inside the block to ``listener``.

    >>> with listening(lambda step: print(f"{step.task}: {step.done} of {step.total}")):
    ...     report("Encoding", 1, 2)
    Encoding: 1 of 2
    """
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def steps_of(task: str, done: int, n: int, total: int | None) -> Iterator[None]:
    """Report every task inside the block as progress of ``task``, from ``done`` to ``done + n``.

    >>> with listening(lambda step: print(f"{step.task}: {step.done} of {step.total}")):
    ...     with steps_of("Adding", 100, 50, 1000):
    ...         report("Computing image features", 10, 20)
    Adding: 125 of 1000
    """
    furthest = done

    def advance(step: Step) -> None:
        nonlocal furthest  # several tasks can follow each other, but a bar never moves back
        furthest = max(furthest, done + n * step.done // max(step.total, 1))
        if listener is not None:
            listener(Step(task, furthest, max(total or 0, done + n)))

    listener = _listener.get()
    with listening(advance):
        yield
