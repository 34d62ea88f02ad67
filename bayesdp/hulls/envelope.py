"""Exact draws by rejection from l1 noise: in any dimension, for totals and for both margins of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp.hulls.base import Hull
from bayesdp.hulls.proposals import Proposal, proposal_for
from bayesdp.hulls.sensitivity import SensitivityHull
from bayesdp.invariants import Invariants

type Floats = npt.NDArray[np.float64]

LEAST = 0.003
"""Share of proposals that must be accepted, for this to count as a way to draw exactly."""

_PILOT = 64
_TRIES = 1_000_000  # tables that are tried to get the proposals of the pilot
_BATCH = 4096
_CELLS = 2e7  # cells of tables that are tried in one call of compiled code, which cannot be interrupted: a second


@dataclass(frozen=True, eq=False)
class Envelope:
    """Rejection from l1 noise: ``||z||_1 <= D ||z||_K``, D the greatest l1 norm of a vertex."""

    # Whether a proposal is accepted is settled without its norm wherever bounds suffice (`Hull.below`).

    hull: Hull  # in orthonormal coordinates of the invariants
    invariants: Invariants
    proposal: Proposal  # l1 noise that keeps the invariants
    reach: float  # the greatest l1 norm D of a vertex as a table
    # Estimated share of proposals that are accepted: the volume of K as a share of that of the l1 ball. It depends on neither the
    # rate nor any data.
    acceptance: float
    batch: int  # number of proposals in one go

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
        kept = np.empty((size, self.hull.dimension))
        found = 0
        while found < size:
            # At least as many as should be enough, in pieces that fit in memory.
            wanted = min(self.batch, int((size - found) / self.acceptance) + 1)
            tables = self.proposal.draw(epsilon / self.reach, rng, wanted)
            points = self.invariants.coordinates(tables.reshape(-1, *self.invariants.frame.shape))
            limits = np.sum(np.abs(tables), axis=1) / self.reach + rng.standard_exponential(wanted) / epsilon
            chosen = points[self.hull.below(points, limits)][: size - found]
            kept[found : found + len(chosen)] = chosen
            found += len(chosen)
        return kept


def reach_of(hull: Hull, invariants: Invariants) -> float:
    """The greatest l1 norm of a vertex, as a table."""
    if isinstance(hull, SensitivityHull):
        return float(hull.reach)
    tables = invariants.from_coordinates(hull.vertices).reshape(len(hull.vertices), -1)
    return float(np.max(np.sum(np.abs(tables), axis=1)))


@lru_cache(maxsize=8)
def envelope_of(hull: Hull, invariants: Invariants) -> Envelope | None:
    """Set up the rejection sampler; None where there are no proposals, or too few of them would be accepted.

    Acceptance is estimated from 64 proposals of a generator with a fixed seed, so that the answer is always
    the same. The l1 norm of a proposal is independent of its direction, and is integrated over.
    """
    proposal = proposal_for(invariants)
    if proposal is None:
        return None
    reach = reach_of(hull, invariants)
    tables, tried = proposal.tried(1.0, np.random.default_rng(0), _PILOT, _TRIES)
    if len(tables) < _PILOT:
        return None
    gauges = hull.gauge(invariants.coordinates(tables.reshape(-1, *invariants.frame.shape)))
    ratios = np.minimum(1.0, np.sum(np.abs(tables), axis=1) / (reach * gauges))
    share = float(np.mean(ratios**hull.dimension))
    batch = max(1, min(_BATCH, int(_CELLS * _PILOT / (tried * tables.shape[1]))))
    return Envelope(hull, invariants, proposal, reach, share, batch) if share >= LEAST else None
