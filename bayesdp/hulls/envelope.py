"""Exact draws by rejection from l1 noise: in any dimension, for totals and for both margins of a table."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp.hulls.hull import SymmetricHull
from bayesdp.hulls.proposals import Proposal, proposal_for
from bayesdp.invariants import Invariants

__all__ = ["LEAST", "Envelope", "envelope_of"]

type Floats = npt.NDArray[np.float64]

LEAST = 0.003
"""Share of proposals that must be accepted, for this to count as a way to draw exactly."""

_PILOT = 64
_TRIES = 1_000_000  # tables that are tried to get the proposals of the pilot
_BATCH = 4096


@dataclass(frozen=True, eq=False)
class Envelope:
    """Rejection from l1 noise: ``||z||_1 <= D ||z||_K``, D the greatest l1 norm of a vertex.

    Parameters
    ----------
    hull : SymmetricHull
        In orthonormal coordinates of the invariants.
    invariants : Invariants
    proposal : Proposal
        l1 noise that keeps the invariants.
    reach : float
        The greatest l1 norm D of a vertex as a table.
    acceptance : float
        Estimated share of proposals that are accepted. It depends on neither the rate nor any data.
    """

    hull: SymmetricHull
    invariants: Invariants
    proposal: Proposal
    reach: float
    acceptance: float

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
        kept = np.empty((size, self.hull.dimension))
        found = 0
        while found < size:
            # At least as many as should be enough, in pieces that fit in memory.
            wanted = min(_BATCH, int((size - found) / self.acceptance) + 1)
            points, excess = _propose(self.hull, self.invariants, self.proposal, self.reach, epsilon, rng, wanted)
            chosen = points[rng.standard_exponential(len(points)) >= excess][: size - found]
            kept[found : found + len(chosen)] = chosen
            found += len(chosen)
        return kept


@lru_cache(maxsize=8)
def envelope_of(hull: SymmetricHull, invariants: Invariants) -> Envelope | None:
    """Set up the rejection sampler; None where there are no proposals, or too few of them would be accepted.

    Acceptance is estimated from 64 proposals of a generator with a fixed seed, so that the answer is always
    the same.
    """
    proposal = proposal_for(invariants)
    if proposal is None:
        return None
    tables = invariants.from_coordinates(hull.vertices).reshape(len(hull.vertices), -1)
    reach = float(np.max(np.sum(np.abs(tables), axis=1)))
    rng = np.random.default_rng(0)
    points, excess = _propose(hull, invariants, proposal, reach, 1.0, rng, _PILOT, _TRIES)
    share = float(np.mean(np.exp(-excess))) if len(points) == _PILOT else 0.0
    return Envelope(hull, invariants, proposal, reach, share) if share >= LEAST else None


def _propose(
    hull: SymmetricHull,
    invariants: Invariants,
    proposal: Proposal,
    reach: float,
    epsilon: float,
    rng: np.random.Generator,
    size: int,
    tries: int | None = None,
) -> tuple[Floats, Floats]:
    """Proposals in coordinates, and minus the logarithm of the probability to accept each."""
    rate = epsilon / reach
    tables = proposal.draw(rate, rng, size, tries)
    points = invariants.coordinates(tables.reshape(-1, *invariants.frame.shape))
    return points, epsilon * hull.gauge(points) - rate * np.sum(np.abs(tables), axis=1)
