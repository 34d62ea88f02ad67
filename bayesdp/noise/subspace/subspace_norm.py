"""Real noise whose density falls exponentially in the l1, l2 or l-infinity norm, on the space that invariants leave free.

Exact draws by rejection; and the unit balls of the norms, cut with that space: volumes, and small polytopes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
import scipy.linalg
from scipy.spatial import HalfspaceIntersection

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.invariants import Invariants
from bayesdp.lattices.polytopes import SymmetricHull, sensitivity_hull
from bayesdp.lattices.polytopes.base import fill
from bayesdp.lattices.polytopes.sensitivity import l1_moments, proposal_for
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise.base import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.subspace.laws import SubspaceLaw, axes_of, share_of_projection
from bayesdp.noise.tables import norm_of
from bayesdp.queries import Query

LEAST = 1e-5  # smallest acceptance rate with which a rejection sampler counts as practical
_PILOT = 200_000  # proposals by which the acceptance rate is estimated, or fewer if 20 are accepted before
_ENTRIES = 2_000_000  # numbers in one batch of proposals, and in the matrix of a pivot sampler

_GAMMA_TIMES = "gamma times a uniform point of the cube (Algorithm 6 of Cho and Awan, within the space): "

type Accepted = Callable[[np.random.Generator, int], Floats]
"""From a generator and a number of proposals to the tables of rate 1 that are accepted, shape (accepted, ...)."""


@dataclass(frozen=True, eq=False)
class NormSampler:
    """A rejection sampler for one norm and some invariants; `method` says how it draws, in a sentence."""

    invariants: Invariants
    name: str
    method: str
    accepted: Accepted

    @cached_property
    def acceptance(self) -> float:
        """Estimated acceptance rate; from a fixed seed, so that it is the same in every process."""
        rng, accepted, proposed = np.random.default_rng(0), 0, 0
        while accepted < 20 and proposed < _PILOT:
            accepted += len(self.accepted(rng, self._batch))
            proposed += self._batch
        return accepted / proposed

    @property
    def _batch(self) -> int:
        return max(1, min(10_000, _ENTRIES // self.invariants.frame.size))

    def draw(self, rate: float, rng: np.random.Generator, size: int) -> Floats:
        """Draw tables, shape ``(size, *table)``."""

        def accepted(missing: int) -> Floats:
            needed = int(missing / max(self.acceptance, LEAST)) + 1
            return self.accepted(rng, min(self._batch, needed)).reshape(-1, *self.invariants.frame.shape)

        tables = fill(np.empty((size, *self.invariants.frame.shape)), accepted)
        # Projected, because rounding has left the tables slightly off the subspace.
        return self.invariants.project(tables / rate)


def _radial(invariants: Invariants, rng: np.random.Generator, proposals: int) -> Floats:
    points = rng.normal(size=(proposals, invariants.dimension))
    points *= (rng.gamma(float(invariants.dimension), 1.0, proposals) / np.linalg.norm(points, axis=1))[:, None]
    return invariants.from_coordinates(points)


def _cube_of_totals(invariants: Invariants, rng: np.random.Generator, proposals: int) -> Floats:
    """Disjoint totals: the cube, cut with the subspace, is a product over the totals, and each is drawn until it is kept."""
    blocks = np.asarray(invariants.blocks)
    out = rng.uniform(-1.0, 1.0, (proposals, len(blocks)))
    for block in range(int(blocks.max(initial=-1)) + 1):
        cells = np.flatnonzero(blocks == block)
        out[:, cells] = _zero_sums(rng, proposals, len(cells))
    return out * rng.gamma(invariants.dimension + 1.0, 1.0, proposals)[:, None]


def _cube_of_table(invariants: Invariants, table: tuple[int, int], rng: np.random.Generator, proposals: int) -> Floats:
    """Both margins of a table: all rows but one sum to zero, and the last one, minus their sum, must be in the cube."""
    short, long = sorted(table)
    rows = _zero_sums(rng, proposals * (long - 1), short).reshape(proposals, long - 1, short)
    last = -rows.sum(axis=1, keepdims=True)
    kept = np.all(np.abs(last) <= 1.0, axis=(1, 2))
    tables = np.concatenate([rows[kept], last[kept]], axis=1)
    tables *= rng.gamma(invariants.dimension + 1.0, 1.0, len(tables))[:, None, None]
    return tables if table == (long, short) else tables.swapaxes(1, 2)


def _pivots(invariants: Invariants) -> tuple[Floats, Floats]:
    """A matrix that gives all cells from as many that are free, shape (n, cells), and 1.0 for each free cell, else 0.0."""
    n, basis = invariants.dimension, axes_of(invariants)
    order = scipy.linalg.qr(basis, mode="r", pivoting=True)[1]
    chosen = np.sort(order[:n])
    free = np.zeros(basis.shape[1])
    free[chosen] = 1.0
    return np.linalg.solve(basis[:, chosen], basis), free


def _from_pivots(norm: str, spread: Floats, free: Floats, rng: np.random.Generator, proposals: int) -> Floats:
    """Any invariants of n free dimensions: n cells are drawn freely and determine the others, by which they are rejected."""
    n = len(spread)
    if norm == "l1":
        tables = rng.laplace(size=(proposals, n)) @ spread
        dependent = np.sum(np.abs(tables) * (1.0 - free), axis=1)
        return tables[rng.standard_exponential(proposals) >= dependent]
    tables = rng.uniform(-1.0, 1.0, (proposals, n)) @ spread
    tables = tables[np.all(np.abs(tables) <= 1.0 + free * 1e-9, axis=1)]  # free cells are in, up to rounding
    return tables * rng.gamma(n + 1.0, 1.0, len(tables))[:, None]


def _zero_sums(rng: np.random.Generator, count: int, m: int) -> Floats:
    """Uniform points of ``{z : |z_i| <= 1, sum z = 0}``, shape (count, m)."""
    out = np.empty((count, m))
    missing = np.arange(count)
    while len(missing):
        rest = rng.uniform(-1.0, 1.0, (len(missing), m - 1))
        last = -rest.sum(axis=1)
        good = np.abs(last) <= 1.0
        out[missing[good]] = np.column_stack([rest[good], last[good]])
        missing = missing[~good]
    return out


@lru_cache(maxsize=32)
def norm_sampler(invariants: Invariants, norm: str) -> NormSampler:
    """The exact sampler for a norm, ``"l1"``, ``"l2"`` or ``"linf"``; NotImplementedError if none is practical."""
    if not invariants.dimension:
        raise ValueError(f"nothing is left free for noise: {invariants!r}")
    if norm == "l2":
        method = "a gamma radius times a uniform direction (Algorithm 5 of Cho and Awan, within the space)"
        return NormSampler(invariants, "radial", method, partial(_radial, invariants))
    proposal = proposal_for(invariants)
    if proposal is not None and norm == "l1":
        # The l1 noise from which the lattice samplers propose, for totals and tables with both margins.
        sampler = NormSampler(invariants, "l1", proposal.words, partial(proposal.draw, 1.0))
    elif proposal is not None and proposal.blocks is not None:
        method = _GAMMA_TIMES + "all cells of a total but one, until the last one is in the cube"
        sampler = NormSampler(invariants, "cube", method, partial(_cube_of_totals, invariants))
    elif proposal is not None:
        assert proposal.table is not None  # one of the two kinds
        method = _GAMMA_TIMES + "rows but one, until the last one is in the cube"
        sampler = NormSampler(invariants, "cube", method, partial(_cube_of_table, invariants, proposal.table))
    elif invariants.dimension * invariants.frame.size <= _ENTRIES:
        method = (
            "independent Laplace noise in as many cells as are free, and rejection on those that they determine"
            if norm == "l1"
            else _GAMMA_TIMES + "as many cells as are free, until those that they determine are in the cube"
        )
        sampler = NormSampler(invariants, "pivots", method, partial(_from_pivots, norm, *_pivots(invariants)))
    else:
        raise NotImplementedError(
            f"no exact sampler of {norm} noise is known for {invariants!r}: there is one for totals and for both margins of a "
            "table, and a general one for smaller tables. The l2 norm has one for any invariants"
        )
    if sampler.acceptance < LEAST:
        raise NotImplementedError(
            f"no exact sampler of {norm} noise is practical for {invariants!r}: {sampler.method}; fewer than one in "
            f"{round(1 / LEAST):,} tries is kept. The l2 norm has one for any invariants"
        )
    return sampler


_LARGEST_TOTAL = 500  # cells of a total whose section of the cube is computed, in integers of any size
_INTERSECTED = 5  # dimensions up to which the corners of a section of the cube are found


@lru_cache(maxsize=64)
def log_integral_of(invariants: Invariants, norm: str) -> float | None:
    """Logarithm of the integral of ``exp(-||v||)`` over the space, ``n! vol`` of the unit ball; None where not computed."""
    n = invariants.dimension
    if not n:
        return 0.0
    if norm == "l2":
        return math.log(2.0) + 0.5 * n * math.log(math.pi) - math.lgamma(0.5 * n) + math.lgamma(n)
    unit = l1_moments(invariants) if norm == "l1" else None
    if unit is not None:
        return unit[0]
    proposal = proposal_for(invariants) if norm == "linf" else None
    if proposal is not None and proposal.blocks is not None:
        # The cube, cut with the space, is a product over the totals.
        sizes = np.bincount(proposal.blocks + 1)  # that of the free cells first
        if max(sizes[1:], default=0) <= _LARGEST_TOTAL:
            return (
                math.lgamma(n + 1) + int(sizes[0]) * math.log(2.0) + math.fsum(_log_section(int(m)) for m in sizes[1:])
            )
    elif proposal is not None and proposal.table is not None and 2 == min(proposal.table) <= n + 1 <= _LARGEST_TOTAL:
        # Such tables are (a, -a): lengths grow by sqrt(2).
        return math.lgamma(n + 1) + _log_section(n + 1) + 0.5 * n * math.log(2.0)
    section = section_of(invariants, norm)
    return None if section is None else section.log_cone_mass


def _log_section(m: int) -> float:
    """Logarithm of the volume of ``{z : |z_i| <= 1, sum z = 0}`` with m cells."""
    # The last cell is in the cube if the sum of the others is, a probability of the Irwin-Hall law: an alternating sum, in integers.
    n = m - 1
    above, below = (
        sum((-1) ** k * math.comb(n, k) * (top - 2 * k) ** n for k in range(top // 2 + 1)) for top in (m, m - 2)
    )
    return 0.5 * math.log(m) + math.log(above - below) - math.lgamma(m) if n else 0.0


@lru_cache(maxsize=64)
def section_of(invariants: Invariants, norm: str) -> SymmetricHull | None:
    """The unit ball as a polytope in coordinates: l1 of small 3 x c tables, l-infinity up to five dimensions; None elsewhere."""
    if norm == "l1":
        proposal = proposal_for(invariants)
        if proposal is None or proposal.table is None or min(proposal.table) != 3:
            return None
        # The corners of the section of the l1 ball are the circuits: 2 x 2 moves and 3-cycles.
        hull = sensitivity_hull(invariants, 3)
        if hull.facets is None:
            return None
        tables = invariants.from_coordinates(hull.vertices).reshape(hull.count, -1)
        return SymmetricHull(hull.vertices / np.sum(np.abs(tables), axis=1)[:, None])
    n = invariants.dimension
    if norm == "l2" or n > _INTERSECTED:
        return None
    basis = axes_of(invariants).T
    facets = basis[np.any(np.abs(basis) > 1e-12, axis=1)]
    if n == 1:
        return SymmetricHull([[1.0 / float(np.max(np.abs(facets)))]])
    rows = np.concatenate([np.column_stack([facets, -np.ones(len(facets))])] * 2)
    rows[len(facets) :, :-1] *= -1.0
    corners = HalfspaceIntersection(rows, np.zeros(n)).intersections
    _, first = np.unique(np.round(corners, 9), axis=0, return_index=True)
    return SymmetricHull(corners[first])


NORMS = ("l1", "l2", "linf")


@dataclass(frozen=True, eq=False)
class SubspaceNorm(SubspaceLaw):
    r"""Noise with density proportional to ``exp(-epsilon ||z||)`` on ``{z : A z = 0}``.

    Two tables x, x' with the same invariants are told apart with a loss of at most ``epsilon ||x - x'||``. This is the noise of
    the l1, l2 and l-infinity mechanisms conditioned on the invariants, not projected: see `ProjectedLaplace` for that.

    Parameters
    ----------
    epsilon : float
        Rate per count.
    norm : {"l1", "l2", "linf"}, default "l1"

    See Also
    --------
    bayesdp.distributions.SubspaceNorm : the same law as a PyMC distribution.
    bayesdp.SemiNorm : the mechanism that adds this noise; it takes privacy parameters.
    LatticeLaplace : the same on integers, l1 and l2.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithms 4 to 6, within the span of the sensitivity
    space (Proposition 25).

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = SubspaceNorm(epsilon=0.5, norm="l1")
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # in the coordinate sqrt(2) u: log(0.5 sqrt(2) / 2) - 0.5 * 2
    -2.039721
    """

    epsilon: float
    norm: str = "l1"

    name = "subspace-norm"
    full_support = True
    kernel_form = KernelForm("l1")
    scale_name = "epsilon"
    _variance_words = "for l2; for l1 with disjoint totals; in few dimensions"

    def __post_init__(self) -> None:
        super().__post_init__()
        _validate.choice(self.norm, NORMS, "norm")

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density, but for a constant where `log_normaliser` is not known; see `TableLaw.log_kernel`."""
        constant = log_integral_of(invariants, self.norm) or 0.0
        density = invariants.dimension * xp.log(scale) - constant
        return density - scale * norm_of(xp, measured, self.norm, invariants)

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||)`` in orthonormal coordinates, or None where it is not computed.

        Known for l2; for l1 under disjoint totals, and both margins of 2 x c, 3 x 3 and 3 x 4 tables; for l-infinity
        disjoint totals of up to 500 cells, 2 x c tables, and all else up to five dimensions.
        """
        unit = log_integral_of(invariants, self.norm)
        return None if unit is None else unit - invariants.dimension * math.log(self.epsilon)

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is: always exactly.

        Raises
        ------
        NotImplementedError
            If no exact sampler is practical: the message says why.
        """
        found = norm_sampler(invariants, self.norm)
        return Sampler(True, found.name, None, found.method, found.acceptance)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw noise, always exactly or not at all: `sampler` says how, or why not."""
        return norm_sampler(invariants, self.norm).draw(self.epsilon, rng, count)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known."""
        known = self.needed(invariants, shape)
        unit, kept = l1_moments(known) if self.norm == "l1" else None, share_of_projection(known)
        if unit is None or kept is None:
            return super().variance(shape, known)
        return np.asarray(unit[1].reshape(shape) * kept / self.epsilon**2)

    def _covariance(self, invariants: Invariants) -> Floats | float | None:
        if self.norm == "l2":
            # The squared radius has mean n (n + 1) / epsilon**2, shared by n coordinates alike.
            return (invariants.dimension + 1.0) / self.epsilon**2
        section = section_of(invariants, self.norm)
        moments = None if section is None else section.second_moment
        return None if moments is None else moments / self.epsilon**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length; lengths in l-infinity are not measured. See `NoiseLaw.pair_loss`."""
        return None if self.norm == "linf" else LossByLength(("pure",), self.norm, exponential_loss(self.epsilon))

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """The form of its norm; the largest cell (l-infinity) is not a sum over cells. See `NoiseLaw.kernel_of`."""
        return None if self.norm == "linf" else KernelForm(self.norm)
