"""Checks of the arguments that every sampler has."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesdp._validate import generator_of

__all__ = ["count_of", "generator_of"]


def count_of(size: Any) -> int:
    """Accept a number of draws, zero included."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"size must be an integer or None, got {size!r}")
    if size < 0:
        raise ValueError(f"size must be at least 0, got {size!r}")
    return int(size)
