"""The projected Laplace law: independent Laplace noise, projected onto the subspace that the invariants leave free.

Its density is an integral over the row space (`bayesdp.noise.subspace.row_space`), in closed form over lines, and numerical over
planes and spaces, for small components of rank 2 and 3. As a function of the other coordinates what
remains of the innermost integral is log-concave, and analytic between kinks: the coordinates of the corners of the arrangement of
the planes ``u_i + (R^T w)_i = 0``. So Gauss and Legendre's rule is used between all kinks, on pieces over which the logarithm
changes little, where it is accurate to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.invariants import Invariants
from bayesdp.noise.base import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.subspace.laws import SubspaceLaw
from bayesdp.noise.subspace.row_space import blocks_density, components_of, line_integrals
from bayesdp.queries import Query

type Floats = npt.NDArray[np.float64]

MAX_RANK = 3  # highest rank of a component for which integrals are nested
_CORNERS = 3000  # most corners of an arrangement; each is an end of a piece

_DROP = 3.0
"""Largest change of the logarithm over a piece: Gauss and Legendre's rule then errs by less than 1e-18 on exponentials."""

_DEPTH = 45.0  # pieces are left out where the integrand is below ``exp(-45) = 3e-20`` of its peak

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)


def within_reach(rank: int, cells: int) -> bool:
    """Whether a component is small enough for nested integrals."""
    return rank <= MAX_RANK and math.comb(cells, rank) <= _CORNERS


def log_integral(u: Floats, rows: Floats, b: float) -> float:
    """Logarithm of the integral over w; accurate to about 1e-12 (1e-9 is promised). `rows`, R: linearly independent small integers."""
    if len(rows) == 1:
        return float(line_integrals(u[None, :], rows[0], b)[0])

    def height(at: Floats) -> Floats:
        shifted = u + at[:, None] * rows[-1]
        if len(rows) == 2:
            return line_integrals(shifted, rows[0], b)
        return np.array([log_integral(each, rows[:-1], b) for each in shifted])

    ends, heights = _flat_pieces(_kinks(u, rows), height, b / float(np.max(np.abs(rows[-1]))))
    half = 0.5 * np.diff(ends)
    centre = 0.5 * (ends[1:] + ends[:-1])
    top = float(np.max(heights))
    seen = np.flatnonzero(np.maximum(heights[1:], heights[:-1]) > top - _DEPTH)
    values = np.exp(height((centre[seen, None] + half[seen, None] * _NODES).reshape(-1)) - top)
    return top + float(np.log(np.sum(half[seen] * (values.reshape(-1, len(_NODES)) @ _WEIGHTS))))


def _kinks(u: Floats, rows: Floats) -> Floats:
    """Last coordinates of the corners of the arrangement: points w where as many terms ``u_i + (R^T w)_i`` as its rank are 0."""
    rank, cells = rows.shape
    chosen = np.array(list(combinations(range(cells), rank)))
    systems = rows.T[chosen]
    regular = (
        np.abs(np.linalg.det(systems)) > 0.5
    )  # those with a unique solution; determinants of integers are integers
    return np.unique(np.linalg.solve(systems[regular], -u[chosen[regular]][..., None])[:, -1, 0])


def _flat_pieces(kinks: Floats, height: Callable[[Floats], Floats], scale: float) -> tuple[Floats, Floats]:
    """Split the axis at the kinks and until the logarithm changes little on every piece that counts."""
    ends, heights = kinks, height(kinks)
    reach = scale
    # Concave: once the ends are low enough, what is outside of them is negligible.
    while min(heights[0], heights[-1]) > heights.max() - 2.0 * _DEPTH or heights.max() in (heights[0], heights[-1]):
        outer = np.array([ends[0] - reach, ends[-1] + reach])
        ends = np.concatenate([outer[:1], ends, outer[1:]])
        more = height(outer)
        heights = np.concatenate([more[:1], heights, more[1:]])
        reach *= 2.0
    open_ = np.ones(len(ends) - 1, dtype=np.bool_)
    while np.any(open_):
        which = np.flatnonzero(open_)
        middle = 0.5 * (ends[which] + ends[which + 1])
        found = height(middle)
        low, high = heights[which], heights[which + 1]
        top = max(float(np.max(heights)), float(np.max(found)))
        # A concave function on a piece exceeds its ends at most by how far its middle is above their mean.
        bulge = found - 0.5 * (low + high)
        flat = (np.abs(high - low) <= _DROP) & (bulge <= 0.25 * _DROP)
        buried = np.maximum(low, high) + 2.0 * bulge < top - _DEPTH
        buried |= middle == ends[which]  # no number between the ends
        split = ~(flat | buried)
        order = np.argsort(np.concatenate([np.arange(len(ends), dtype=np.float64), which[split] + 0.5]), kind="stable")
        ends = np.concatenate([ends, middle[split]])[order]
        heights = np.concatenate([heights, found[split]])[order]
        still = np.zeros(len(open_), dtype=np.bool_)
        still[which[split]] = True
        open_ = np.repeat(still, np.where(still, 2, 1))
    return ends, heights


@dataclass(frozen=True, eq=False)
class ProjectedLaplace(SubspaceLaw):
    r"""Independent Laplace noise of scale b, projected orthogonally onto ``{z : A z = 0}``.

    Unlike projected normal noise it is neither independent in any coordinates nor the unprojected noise given the
    invariants. Its density at u, in orthonormal coordinates of the subspace, is that of all noise that is projected to u:

    .. math:: f(u) = \sqrt{\det R R^T}\; (2b)^{-d} \int \exp\Bigl(-\sum_i |u_i + (R^T w)_i| / b\Bigr)\, dw

    with the rows of R a basis of the row space of A. The integral falls apart where no invariant connects cells. For
    disjoint totals (and any other invariants that meet each cell once) it is one-dimensional in each total and in closed
    form, at the cost of one sort. Components of rank 2 and 3 are integrated numerically, to a relative accuracy of 1e-9,
    while they are small: a 2 x 2 table with its margins has rank 3. Beyond that the density is not available; a model does
    without it by keeping w as a latent variable.

    Parameters
    ----------
    b : float
        Scale of the noise before it is projected, in counts, below 2**46.

    See Also
    --------
    bayesdp.distributions.ProjectedLaplace : the same law as a PyMC distribution.
    bayesdp.distributions.RowSpaceNoise : its latent form, for any invariants.
    bayesdp.ProjectedLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Gao, Gong and Yu (2022), Subspace Differential Privacy, Corollary 3.8 and Section 4.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> noise = ProjectedLaplace(b=2.0).draw(np.random.default_rng(1), (2,), 1000, pair)
    >>> bool(np.all(np.abs(noise.sum(axis=1)) < 1e-12))
    True

    Half the difference of two Laplace variables; at zero its density in the coordinate ``sqrt(2) u`` is
    ``sqrt(2) / (4 b)``.

    >>> density = ProjectedLaplace(b=2.0).logp([7.0, 3.0], [7, 3], pair)
    >>> bool(np.isclose(np.exp(density), np.sqrt(2.0) / 8.0))
    True
    """

    b: float

    name = "projected-laplace"
    full_support = True
    kernel_form = KernelForm("l1", of_scale=True)
    scale_name = "b"
    relation = (
        "b, the scale before projection: length / epsilon for tables that far apart (l1), if epsilon is their loss"
    )
    _variance_words = "``2 b**2`` times the diagonal of the projection"

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> float:
        """Log-density of one table of NumPy: the integral is compiled here, and PyTensor has an Op of its own for it.

        Raises
        ------
        NotImplementedError
            If a component of the invariants has a rank above 3, or is too large for numerical integration.
        """
        parts = components_of(invariants)
        flat = measured.reshape(-1)
        density, _ = blocks_density(flat, scale, parts.starts, parts.cells, parts.entries, np.empty(flat.size))
        density += parts.log_volume
        for part in parts.wide:
            rank, cells = part.rows.shape
            if not within_reach(rank, cells):
                raise NotImplementedError(
                    f"the density of projected Laplace noise is not available here: {cells} cells hang together by "
                    f"invariants of rank {rank}, and its integral over {rank} dimensions has no closed form. In a model, "
                    "use bayesdp.distributions.RowSpaceNoise with ProjectedLaplaceGivenRows, which need no integral"
                )
            rows = part.rows.toarray()
            density += 0.5 * float(np.linalg.slogdet(rows @ rows.T)[1])
            density += log_integral(flat[part.cells], rows, scale) - len(part.cells) * math.log(2.0 * scale)
        return float(density)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw Laplace noise, and project it."""
        return invariants.project(rng.laplace(scale=self.b, size=(count, *invariants.frame.shape)))

    def _covariance(self, invariants: Invariants) -> float:
        return 2.0 * self.b**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """An upper bound at a length: what is projected away hides something too. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), "l1", exponential_loss(1.0 / self.b), tight=False)

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """A product where nothing is projected away. See `NoiseLaw.kernel_of`."""
        return self.kernel_form if invariants is None or not invariants.rank else None
