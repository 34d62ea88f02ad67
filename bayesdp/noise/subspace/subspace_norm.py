"""Real noise whose density falls exponentially in the l1, l2 or l-infinity norm, on the space that invariants leave free.

The unit balls of l1, l2 and l-infinity, cut with the space that invariants leave free: volumes, and small polytopes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.spatial import HalfspaceIntersection

from bayesdp import _validate
from bayesdp.hulls import SymmetricHull, sensitivity_hull
from bayesdp.hulls.boundary import is_quick
from bayesdp.hulls.proposals import proposal_for
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise._verbs import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.subspace._norm_draws import norm_sampler
from bayesdp.noise.subspace.base import SubspaceLaw, cell_variances, share_of_projection
from bayesdp.noise.tables import norm_of
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]

_LARGEST_TOTAL = 500
"""Cells of a total whose section of the cube is computed by exact fractions."""

_INTERSECTED = 5
"""Dimensions up to which the corners of a section of the cube are found."""


@lru_cache(maxsize=64)
def log_integral_of(invariants: Invariants, norm: str) -> float | None:
    """Logarithm of the integral of ``exp(-||v||)`` over the space, ``n! vol`` of the unit ball; None where not computed.

    In closed form for l2, and for disjoint totals and tables with two rows or columns (l-infinity: totals of up to 500
    cells); by triangulation for l1 and 3 x c tables up to c = 4, and for l-infinity up to five dimensions.
    """
    n = invariants.dimension
    if not n:
        return 0.0
    if norm == "l2":
        return math.log(2.0) + 0.5 * n * math.log(math.pi) - math.lgamma(0.5 * n) + math.lgamma(n)
    proposal = proposal_for(invariants)
    if proposal is not None and proposal.blocks is not None:
        return _of_totals(proposal.blocks, norm)
    table = None if proposal is None else proposal.table
    if table is not None and min(table) == 2:
        # Such tables are (a, -a): both lines have the same largest cell, and twice the l1 norm; lengths grow by sqrt(2).
        own = _of_totals(np.zeros(max(table), dtype=np.int64), norm)
        return None if own is None else own + 0.5 * n * math.log(2.0) - (n * math.log(2.0) if norm == "l1" else 0.0)
    section = section_of(invariants, norm)
    return None if section is None else section.log_cone_mass


@lru_cache(maxsize=64)
def section_of(invariants: Invariants, norm: str) -> SymmetricHull | None:
    """The unit ball as a polytope in coordinates; None where that is not small, or the norm is l2."""
    if norm == "l1":
        proposal = proposal_for(invariants)
        table = None if proposal is None else proposal.table
        return _of_circuits(invariants) if table is not None and min(table) in (2, 3) else None
    return _of_cube(invariants) if norm == "linf" and invariants.dimension <= _INTERSECTED else None


def _of_totals(blocks: npt.NDArray[np.int64], norm: str) -> float | None:
    """Disjoint totals; block -1 has the free cells."""
    sizes = np.bincount(blocks[blocks >= 0]).tolist() if np.any(blocks >= 0) else []
    free = int(np.count_nonzero(blocks < 0))
    if norm == "l1":
        # Under the l1 norm totals are independent: each is the root polytope with C(2m - 2, m - 1) unit simplices.
        return free * math.log(2.0) + math.fsum(
            math.log(math.comb(2 * (m - 1), m - 1)) + 0.5 * math.log(m) - (m - 1) * math.log(2.0) for m in sizes
        )
    if max(sizes, default=0) > _LARGEST_TOTAL:
        return None
    # The unit ball is a product.
    n = free + sum(m - 1 for m in sizes)
    return math.lgamma(n + 1) + free * math.log(2.0) + math.fsum(_log_central_section(m) for m in sizes)


def _log_central_section(m: int) -> float:
    """Logarithm of the volume of ``{z : |z_i| <= 1, sum z = 0}`` with m cells.

    All but one cell are free, and the last one is in the cube if the sum of the others is within [-1, 1]: a probability of
    the Irwin-Hall law, whose alternating sum needs exact arithmetic.
    """
    n = m - 1
    if n == 0:
        return 0.0

    def below(twice: int) -> Fraction:  # of the sum of n uniform numbers on [0, 1], times n!
        terms = ((-1) ** k * math.comb(n, k) * Fraction(twice - 2 * k, 2) ** n for k in range(twice // 2 + 1))
        return sum(terms, Fraction(0))

    share = (below(n + 1) - below(n - 1)) / math.factorial(n)
    return 0.5 * math.log(m) + n * math.log(2.0) + math.log(share.numerator) - math.log(share.denominator)


def _of_circuits(invariants: Invariants) -> SymmetricHull | None:
    """The corners of the section of the l1 ball are the circuits; of 3 x c tables these are 2 x 2 moves and 3-cycles."""
    hull = sensitivity_hull(invariants, 3)
    if not is_quick(hull.count, hull.dimension):
        return None
    tables = invariants.from_coordinates(hull.vertices).reshape(hull.count, -1)
    return SymmetricHull(hull.vertices / np.sum(np.abs(tables), axis=1)[:, None])


def _of_cube(invariants: Invariants) -> SymmetricHull | None:
    """The corners of the section of the cube, from its facets."""
    n, cells = invariants.dimension, invariants.frame.size
    basis = invariants.from_coordinates(np.eye(n)).reshape(n, cells).T
    facets = basis[np.any(np.abs(basis) > 1e-12, axis=1)]
    if n == 1:
        return SymmetricHull([[1.0 / float(np.max(np.abs(facets)))]])
    rows = np.concatenate([np.column_stack([facets, -np.ones(len(facets))])] * 2)
    rows[len(facets) :, :-1] *= -1.0
    corners = np.unique(np.round(HalfspaceIntersection(rows, np.zeros(n)).intersections, 12), axis=0)
    return SymmetricHull(corners) if is_quick(len(corners), n) else None


NORMS = ("l1", "l2", "linf")


@dataclass(frozen=True, eq=False)
class SubspaceNorm(SubspaceLaw):
    r"""Noise with density proportional to ``exp(-epsilon ||z||)`` on ``{z : A z = 0}``.

    Two tables x, x' with the same invariants are told apart with a loss of at most ``epsilon ||x - x'||``. This is the noise of
    the l1, l2 and l-infinity mechanisms conditioned on the invariants, not projected: see `ProjectedLaplace` for that.

    ========  ==========================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  for l2; for l1 with disjoint totals; in few dimensions
    ========  ==========================================================

    Parameters
    ----------
    epsilon : float
        Rate per count.
    norm : {"l1", "l2", "linf"}, default "l1"

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, or the norm is unknown.

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
    everywhere = True
    kernel_form = KernelForm("l1")
    scale_name = "epsilon"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        _validate.choice(self.norm, NORMS, "norm")

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density, but for a constant where `log_normaliser` is not known; see `TableLaw.log_kernel`."""
        constant = log_integral_of(invariants, self.norm) or 0.0
        density = invariants.dimension * xp.log(scale) - constant
        return density - scale * norm_of(xp, measured, self.norm, invariants)

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||)`` in orthonormal coordinates, or None where it is not computed.

        Known for l2, for disjoint totals, for tables with two rows or columns, and for small tables: 3 x c up to c = 4 (l1),
        up to five dimensions (l-infinity).
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
        invariants = self.needed(invariants, shape)
        if self.norm == "l2":
            # The squared radius has mean n (n + 1) / epsilon**2, shared by n coordinates alike.
            kept = share_of_projection(invariants)
            return None if kept is None else (invariants.dimension + 1.0) / self.epsilon**2 * kept
        if self.norm == "linf" or invariants.blocks is None:
            section = section_of(invariants, self.norm)
            moments = None if section is None else section.second_moment
            return None if moments is None else cell_variances(moments / self.epsilon**2, invariants)
        # Differences of two uniform points: each coordinate has the variance (2 m - 1) / (m + 1), times 1 - 1/m for a cell.
        blocks = np.asarray(invariants.blocks)
        m = np.bincount(blocks + 1).astype(np.float64)[blocks + 1]
        kept = np.where(blocks < 0, 2.0, (2.0 * m - 1.0) / (m + 1.0) * (1.0 - 1.0 / m))
        return np.asarray(kept.reshape(shape) / self.epsilon**2)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length; lengths in l-infinity are not measured. See `NoiseLaw.pair_loss`."""
        return None if self.norm == "linf" else LossByLength(("pure",), self.norm, exponential_loss(self.epsilon))

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """The form of its norm; the largest cell (l-infinity) is not a sum over cells. See `NoiseLaw.kernel_of`."""
        return None if self.norm == "linf" else KernelForm(self.norm)
