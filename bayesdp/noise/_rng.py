"""Checks of the arguments that every sampler has."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["count_of", "generator_of"]


def generator_of(rng: Any) -> np.random.Generator:
    """Accept a generator; None makes one from the entropy of the operating system."""
    if rng is None:
        return np.random.default_rng()
    if not isinstance(rng, np.random.Generator):
        raise TypeError(f"rng must be a numpy.random.Generator or None, got {type(rng).__name__}")
    return rng


def count_of(size: Any) -> int:
    """Accept a number of draws, zero included."""
    if isinstance(size, bool) or not isinstance(size, (int, np.integer)):
        raise TypeError(f"size must be an integer or None, got {size!r}")
    if size < 0:
        raise ValueError(f"size must be at least 0, got {size!r}")
    return int(size)
