"""Freed memory that is kept for the next step of a training, where the C library can be told so.

The C library of Linux gives a large block back to the system when it is freed, and asks for a
fresh one, which the system fills with zeros page by page. A training step of a large network frees
and asks for gigabytes: half of its time goes into that.
"""

from __future__ import annotations

import ctypes
import sys

# Names and values of <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_MAX = -4
INT_MAX = 2**31 - 1


def keep_freed_memory() -> bool:
    """Keep what this process frees; whether that could be arranged.

    It is for a process of our own that trains, not for a library's caller: the memory stays with
    the process until it ends.
    """
    if sys.platform != "linux":
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    if mallopt is None:
        return False
    return bool(mallopt(M_MMAP_MAX, 0) and mallopt(M_TRIM_THRESHOLD, INT_MAX))
