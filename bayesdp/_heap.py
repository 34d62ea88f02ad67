"""Memory that was freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> bool:
    """Give pages of freed memory back to the system, where its allocator keeps them, as that of glibc does; whether any were."""
    # It serves arrays of up to 32 MB from heaps, one a thread, once arrays of that size have been freed, and what is free in the
    # midst of a heap is not given back by itself: of a state of 1,500 tracts that was half a gigabyte.
    if not sys.platform.startswith("linux"):
        return False
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # none with other C libraries
    return trim is not None and bool(trim(0))
