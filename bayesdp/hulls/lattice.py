"""Integer noise of the norm of a hull: exact draws by rejection from l1 noise on the lattice."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from bayesdp._validate import Seed, generator_of, positive_real
from bayesdp.hulls.base import Hull
from bayesdp.hulls.envelope import LEAST, reach_of
from bayesdp.invariants import Invariants
from bayesdp.lattices.exact.exact import Exact, exact_sampler
from bayesdp.lattices.samplers import Sampler

__all__ = ["choose_lattice_sampler", "sample_lattice"]

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_PILOT = 64
_BATCH = 4096
_TRIES = 20_000  # of the l1 sampler for the proposals of one batch

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
    batch = max(1, min(_BATCH, int(_TRIES * proposals.acceptance)))
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

    Returns
    -------
    Sampler

    Raises
    ------
    NotImplementedError
        If there is no practical exact sampler.

    Examples
    --------
    >>> from bayesdp.hulls import sensitivity_hull
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

    Raises
    ------
    NotImplementedError
        As `choose_lattice_sampler`.
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
