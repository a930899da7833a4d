"""What a training warned of, kept with its result instead of lost on a screen."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


class _Notes(logging.Handler):
    """Each warning once, in the order of their coming."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.add(record.getMessage())

    def add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)


@contextmanager
def taking_notes() -> Iterator[list[str]]:
    """Collect the warnings of the library, and of Python, inside the block.

    >>> with taking_notes() as notes:
    ...     logging.getLogger("corrhash").warning("Codes collapse.")
    ...     warnings.warn("It did not converge.", stacklevel=1)
    >>> notes
    ['Codes collapse.', 'It did not converge.']
    """
    log, handler = logging.getLogger("corrhash"), _Notes()
    handlers, propagate = log.handlers, log.propagate
    log.handlers, log.propagate = [handler], False
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield handler.lines
        for warning in caught:
            handler.add(str(warning.message))
    finally:
        log.handlers, log.propagate = handlers, propagate
