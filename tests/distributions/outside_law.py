"""A law on a lattice that the package does not know: all that a user writes to add one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.distributions import distribution_of
from bayesdp.invariants import Invariants
from bayesdp.noise.lattice.laws import LatticeLaw
from bayesdp.noise.tables import norm_of


@dataclass(frozen=True, eq=False)
class LatticeMaximum(LatticeLaw):
    """Noise with mass proportional to ``exp(-epsilon max |z|)`` on integer tables that change no invariant.

    Drawn for one total over three cells only: 6 r tables have the maximum r.
    """

    epsilon: float

    name = "outside-lattice-maximum"
    scale_name = "epsilon"

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        return -scale * norm_of(xp, measured, "linf", invariants)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        falls = xp.exp(-scale)
        return xp.log1p(6.0 * falls / (1.0 - falls) ** 2) if three_cells(invariants) else None

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Any:
        points = triples(int(60 / self.epsilon))
        weights = np.exp(-self.epsilon * np.abs(points).max(axis=1))
        return points[rng.choice(len(points), count, p=weights / weights.sum())]


LatticeMaximumNoise = distribution_of(LatticeMaximum)


def three_cells(invariants: Invariants) -> bool:
    """Whether the invariants are one total over three cells."""
    return invariants.frame.size == 3 and invariants.blocks is not None and bool(np.all(invariants.blocks == 0))


def triples(reach: int) -> Any:
    """Three integers that sum to zero, none beyond reach."""
    i, j = (axis.ravel() for axis in np.mgrid[-reach : reach + 1, -reach : reach + 1])
    points = np.column_stack([i, j, -i - j])
    return points[np.abs(points).max(axis=1) <= reach]
