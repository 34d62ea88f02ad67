"""A law on a lattice that the package does not know: all that a user writes to add one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytensor.tensor as pt

from bayesdp.distributions import table_distribution
from bayesdp.distributions.tables import symbolic_log_sum
from bayesdp.invariants import Invariants
from bayesdp.noise.lattice.base import LatticeLaw
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

    def log_normaliser(self, invariants: Invariants) -> float | None:
        falls = math.exp(-self.epsilon)
        return math.log1p(6.0 * falls / (1.0 - falls) ** 2) if three_cells(invariants) else None

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Any:
        points = triples(int(60 / self.epsilon))
        weights = np.exp(-self.epsilon * np.abs(points).max(axis=1))
        return points[rng.choice(len(points), count, p=weights / weights.sum())]


@symbolic_log_sum.register  # for models in which epsilon is unknown
def _log_sum(law: LatticeMaximum, epsilon: Any, invariants: Invariants) -> Any:
    falls = pt.exp(-epsilon)
    return pt.log1p(6.0 * falls / (1.0 - falls) ** 2) if three_cells(invariants) else None


LatticeMaximumNoise = table_distribution(LatticeMaximum, name="LatticeMaximumNoise")


def three_cells(invariants: Invariants) -> bool:
    """Whether the invariants are one total over three cells."""
    return invariants.frame.size == 3 and invariants.blocks is not None and bool(np.all(invariants.blocks == 0))


def triples(reach: int) -> Any:
    """Three integers that sum to zero, none beyond reach."""
    i, j = (axis.ravel() for axis in np.mgrid[-reach : reach + 1, -reach : reach + 1])
    points = np.column_stack([i, j, -i - j])
    return points[np.abs(points).max(axis=1) <= reach]
