"""What the mutations draw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def one(rng: np.random.Generator, items: Sequence[Any]) -> Any:
    """One of several, each with its own type."""
    return items[int(rng.integers(0, len(items)))]


def place(rng: np.random.Generator, items: Sequence[Any] | bytes) -> int:
    """An index; 0 where there is nothing."""
    return int(rng.integers(0, max(1, len(items))))


def size(rng: np.random.Generator, low: float, high: float) -> int:
    """Between two powers of 2, small more often than large."""
    return int(2 ** rng.uniform(low, high))
