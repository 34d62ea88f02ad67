"""Noise of the norm of a hull by rejection from l1 noise: in any dimension, for totals and for both margins of a table.

On the space that invariants leave free, and on its integer points.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, generator_of, positive_real
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.exact import Exact, exact_sampler
from bayesdp.lattices.samplers import Sampler
from bayesdp.polytopes.base import Hull, fill
from bayesdp.polytopes.sensitivity import SensitivityHull, proposal_for

type Floats = npt.NDArray[np.float64]

LEAST = 0.003
"""Share of proposals that must be accepted, for this to count as a way to draw exactly."""

_PILOT = (
    64  # proposals, of a generator with a fixed seed, by which acceptance is estimated: the answer is always the same
)
_TRIES = 1_000_000  # tables that are tried to get the proposals of the pilot
_BATCH = 4096
_CELLS = 2e7  # cells of tables that are tried in one call of compiled code, which cannot be interrupted: a second
_PROPOSALS_TRIED = 20_000  # of the l1 sampler for the proposals of one batch
# Tries for a proposal. More than for l1 noise itself, which has a Markov chain to fall back on: seconds for 10 x 10.
_MOST_TRIES = 200_000


@dataclass(frozen=True, eq=False)
class Envelope:
    """Rejection from l1 noise: ``||z||_1 <= D ||z||_K``, D the greatest l1 norm of a vertex."""

    # Whether a proposal is accepted is settled without its norm wherever bounds suffice (`Hull.below`).

    hull: Hull  # in orthonormal coordinates of the invariants
    invariants: Invariants
    propose: Callable[[float, np.random.Generator, int], npt.NDArray[Any]]  # tables of l1 noise, flat, by its rate
    reach: float  # the greatest l1 norm D of a vertex as a table
    acceptance: float  # estimated share of proposals that are accepted
    batch: int  # number of proposals in one go

    def accepted(self, epsilon: float, rng: np.random.Generator, missing: int) -> tuple[npt.NDArray[Any], Floats]:
        """Tables of the noise, and their coordinates: at least as many as should be enough, in pieces that fit in memory."""
        count = min(self.batch, int(missing / self.acceptance) + 1)
        tables = self.propose(epsilon / self.reach, rng, count)
        points, sizes = _measured(tables, self.invariants)
        good = self.hull.below(points, sizes / self.reach + rng.standard_exponential(count) / epsilon)
        return tables[good], points[good]

    def draw(self, epsilon: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw points in coordinates, with density proportional to ``exp(-epsilon ||v||_K)``, shape (size, n)."""
        return fill(np.empty((size, self.hull.dimension)), lambda missing: self.accepted(epsilon, rng, missing)[1])


def _measured(tables: npt.NDArray[Any], invariants: Invariants) -> tuple[Floats, Floats]:
    """Coordinates and l1 norms of flat tables."""
    points = invariants.coordinates(tables.reshape(-1, *invariants.frame.shape))
    return points, np.sum(np.abs(tables), axis=1).astype(np.float64)


def _reach_of(hull: Hull, invariants: Invariants) -> float:
    """The greatest l1 norm of a vertex, as a table."""
    if isinstance(hull, SensitivityHull):
        return float(hull.reach)
    tables = invariants.from_coordinates(hull.vertices).reshape(len(hull.vertices), -1)
    return float(np.max(np.sum(np.abs(tables), axis=1)))


@lru_cache(maxsize=8)
def envelope_of(hull: Hull, invariants: Invariants) -> Envelope | None:
    """Set up the rejection sampler; None where there are no proposals, or too few of them would be accepted."""
    # The share is the volume of K as a share of that of the l1 ball: it depends on neither the rate nor any data. The l1 norm of a
    # proposal is independent of its direction, and is integrated over.
    proposal = proposal_for(invariants)
    if proposal is None:
        return None
    reach = _reach_of(hull, invariants)
    tables, tried = proposal.tried(1.0, np.random.default_rng(0), _PILOT, _TRIES)
    if len(tables) < _PILOT:
        return None
    points, sizes = _measured(tables, invariants)
    share = float(np.mean(np.minimum(1.0, sizes / (reach * hull.gauge(points))) ** hull.dimension))
    batch = max(1, min(_BATCH, int(_CELLS * _PILOT / (tried * tables.shape[1]))))
    return Envelope(hull, invariants, proposal.draw, reach, share, batch) if share >= LEAST else None


@lru_cache(maxsize=16)
def _plan(hull: Hull, invariants: Invariants, epsilon: float) -> tuple[Envelope, Exact] | str:
    """The same on the lattice, and the sampler of its proposals; or why there is nothing."""
    hull.check_coordinates(invariants)
    reach = _reach_of(hull, invariants)
    proposals = exact_sampler(invariants, "l1", epsilon / reach)
    if proposals is None or proposals.acceptance * _MOST_TRIES < 1.0:
        return f"l1 noise of rate {epsilon / reach:.3g} with these invariants has no practical exact sampler"
    points, sizes = _measured(proposals.in_pieces(np.random.default_rng(0), _PILOT), invariants)
    share = float(np.mean(np.minimum(1.0, np.exp(sizes * (epsilon / reach) - epsilon * hull.gauge(points)))))
    if share < LEAST:
        return f"only {share:.2g} of the l1 noise would be accepted, less than {LEAST}"
    batch = max(1, min(_BATCH, int(_PROPOSALS_TRIED * proposals.acceptance)))
    return Envelope(
        hull, invariants, lambda _, rng, count: proposals.in_pieces(rng, count), reach, share, batch
    ), proposals


def _practical(hull: Hull, invariants: Invariants, epsilon: float) -> tuple[Envelope, Exact]:
    """The plan, or NotImplementedError where there is none."""
    plan = _plan(hull, invariants, epsilon)
    if isinstance(plan, str):
        raise NotImplementedError(f"no exact sampler is known for integer noise of {hull!r}: {plan}")
    return plan


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
    envelope, proposals = _practical(hull, invariants, positive_real(epsilon, "epsilon"))
    words = (
        f"rejection from l1 noise on the lattice, about {1.0 / envelope.acceptance:.3g} proposals a draw; these by: "
    )
    return Sampler(True, f"envelope of {proposals.name}", None, words + proposals.words, envelope.acceptance)


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
    envelope, _ = _practical(hull, invariants, rate)
    tables = np.zeros((size, invariants.frame.size), dtype=np.int64)
    fill(tables, lambda missing: envelope.accepted(rate, generator, missing)[0])
    return tables.reshape(size, *invariants.frame.shape)
