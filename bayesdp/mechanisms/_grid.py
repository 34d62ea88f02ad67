"""The public grid that real released values stand on."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp._validate import MAX_COUNT
from bayesdp.invariants import Invariants
from bayesdp.lattices.rounding import round_to_lattice
from bayesdp.privacy.caveats import Rounded

__all__ = ["grid_caveat", "grid_for", "on_grid"]

type Floats = npt.NDArray[np.float64]

_GRID_BITS = 20
"""Released values are multiples of the noise scale, rounded down to a power of two, times 2**-20, or of 1 if less."""


def grid_for(scale: float) -> float:
    """The grid step for noise of a scale: a power of two of at most 1, so that counts are on it."""
    return math.ldexp(1.0, min(math.frexp(scale)[1] - 1 - _GRID_BITS, 0))


def on_grid(noise: Floats, grid: float, invariants: Invariants) -> Floats:
    """Noise of shape ``(..., *table)`` moved to nearby multiples of `grid`, a power of two, that change no invariant."""
    # ValueError if noise is 2**53 steps of the grid or more: float64 would round it.
    if np.max(np.abs(noise), initial=0.0) >= MAX_COUNT * grid:
        raise ValueError(
            f"the noise must be smaller than {MAX_COUNT * grid:.6g}, 2**53 steps of its grid, but it is not: take a smaller scale "
            "(a larger loss)"
        )
    whole = round_to_lattice(np.asarray(noise / grid, dtype=np.float64), invariants)
    return np.asarray(grid * whole, dtype=np.float64)


def grid_caveat(grid: float) -> Rounded:
    """What a guarantee says of the grid."""
    return Rounded(round(math.log2(grid)))
