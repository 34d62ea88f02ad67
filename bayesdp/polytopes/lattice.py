"""Integer noise of the norm of a hull: exact draws by rejection from l1 noise on the lattice.

Exact draws by rejection from l1 noise: in any dimension, for totals and for both margins of a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, generator_of, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Exact, Sampler, exact_sampler
from bayesdp.polytopes.base import Hull
from bayesdp.polytopes.sensitivity import Proposal, SensitivityHull, proposal_for

__all__ = ["choose_lattice_sampler", "sample_lattice"]

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


type Ints = npt.NDArray[np.int64]

_PROPOSALS_TRIED = 20_000  # of the l1 sampler for the proposals of one batch

MOST_TRIES = 200_000
"""Tries for a proposal. More than for l1 noise itself, which has a Markov chain to fall back on: seconds for 10 x 10."""


@dataclass(frozen=True)
class _Plan:
    reach: float
    acceptance: float
    batch: int
    proposals: Exact


@lru_cache(maxsize=16)
def _plan(hull: Hull, invariants: Invariants, epsilon: float) -> _Plan | str:
    """What to draw with, or why there is nothing. A generator with a fixed seed: the answer is always the same."""
    hull.check_coordinates(invariants)
    reach = reach_of(hull, invariants)
    proposals = exact_sampler(invariants, "l1", epsilon / reach)
    if proposals is None or proposals.acceptance * MOST_TRIES < 1.0:
        return f"l1 noise of rate {epsilon / reach:.3g} with these invariants has no practical exact sampler"
    points, sizes = _measured(proposals.in_pieces(np.random.default_rng(0), _PILOT), invariants)
    share = float(np.mean(np.minimum(1.0, np.exp(sizes * (epsilon / reach) - epsilon * hull.gauge(points)))))
    if share < LEAST:
        return f"only {share:.2g} of the l1 noise would be accepted, less than {LEAST}"
    batch = max(1, min(_BATCH, int(_PROPOSALS_TRIED * proposals.acceptance)))
    return _Plan(reach, share, batch, proposals)


def _practical(hull: Hull, invariants: Invariants, epsilon: float) -> _Plan:
    """The plan, or NotImplementedError where there is none."""
    plan = _plan(hull, invariants, epsilon)
    if isinstance(plan, str):
        raise NotImplementedError(f"no exact sampler is known for integer noise of {hull!r}: {plan}")
    return plan


def _measured(tables: Ints, invariants: Invariants) -> tuple[Floats, Floats]:
    """Coordinates and l1 norms of flat tables."""
    points = invariants.coordinates(tables.reshape(-1, *invariants.frame.shape))
    return points, np.sum(np.abs(tables), axis=1).astype(np.float64)


def choose_lattice_sampler(hull: Hull, invariants: Invariants, epsilon: float) -> Sampler:
    """Say how integer noise would be drawn.

    Parameters
    ----------
    hull : Hull
        In orthonormal coordinates of the invariants.
    invariants : Invariants
    epsilon : float
        Rate. On a lattice, the share of proposals that is accepted depends on it; not on any data.


    Examples
    --------
    >>> from bayesdp.polytopes import sensitivity_hull
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Invariants(Margins(table, ["county"], ["education"]))
    >>> choose_lattice_sampler(sensitivity_hull(margins, 3), margins, 1.0).name
    'envelope of two-way'
    """
    plan = _practical(hull, invariants, positive_real(epsilon, "epsilon"))
    words = f"rejection from l1 noise on the lattice, about {1.0 / plan.acceptance:.3g} proposals a draw; these by: "
    return Sampler(True, f"envelope of {plan.proposals.name}", None, words + plan.proposals.words, plan.acceptance)


def sample_lattice(hull: Hull, invariants: Invariants, epsilon: float, rng: Seed, size: int) -> npt.NDArray[np.int64]:
    """Draw integer tables that change no invariant, with mass proportional to ``exp(-epsilon ||z||_K)``.

    l1 noise of rate ``epsilon / D`` is accepted with probability ``exp(-epsilon (||z||_K - ||z||_1 / D))``, D the greatest l1
    norm of a vertex. Whether it is accepted is settled without the norm wherever bounds suffice (`Hull.below`).

    Parameters
    ----------
    hull : Hull
        In orthonormal coordinates of the invariants.
    invariants : Invariants
    epsilon : float
        Rate.
    rng : int, numpy.random.Generator or None
    size : int

    Returns
    -------
    int64 array, shape ``(size, *table)``
    """
    rate, generator = positive_real(epsilon, "epsilon"), generator_of(rng)
    plan = _practical(hull, invariants, rate)
    kept = np.zeros((size, invariants.frame.size), dtype=np.int64)
    found = 0
    while found < size:
        wanted = min(plan.batch, int((size - found) / plan.acceptance) + 1)
        tables = plan.proposals.in_pieces(generator, wanted)
        points, sizes = _measured(tables, invariants)
        limits = sizes / plan.reach + generator.standard_exponential(wanted) / rate
        chosen = tables[hull.below(points, limits)][: size - found]
        kept[found : found + len(chosen)] = chosen
        found += len(chosen)
    return kept.reshape(size, *invariants.frame.shape)
