"""The K-norm mechanism: noise in the norm whose unit ball is the hull of all differences of neighbours.

A K-norm mechanism with a larger ball than necessary, where that has less error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp._validate import positive_integer
from bayesdp.mechanisms._shared import on_grid
from bayesdp.mechanisms.subspace.base import SubspaceMechanism
from bayesdp.noise import KNorm as Law
from bayesdp.noise.arrays import positive_rate
from bayesdp.polytopes import DEFAULT_SWEEPS, choose_hull_sampler, sample_hull
from bayesdp.polytopes.sums import MAX_AXES, NormSum, least_sum
from bayesdp.privacy import (
    Guarantee,
    hit_and_run_sampler,
    neighbour_differences,
)
from bayesdp.privacy.losses import LossAt, PureDP
from bayesdp.sensitivities.norms import DifferenceNorm

_MEASURED = 5000
"""Differences whose norm K is computed; more are bounded."""


@dataclass(frozen=True)
class KNorm(SubspaceMechanism):
    """Publish answers with noise whose density falls with the norm of the hull of all differences of neighbours.

    The density is proportional to ``exp(-epsilon ||Q^T z||_K)``, with Q orthonormal coordinates of the noise space and K
    the symmetric hull of all ``Q^T W u``, u a difference of neighbours: the smallest ball that hides every neighbour at
    loss epsilon, inside that of every other such noise. This is no promise of the least error: where neighbours differ much
    more in one direction than in all others, a larger ball puts less of its noise there. `ExtendedLaplace` can then have less
    error, and `WideKNorm` looks for such a ball (docs/CORRECTIONS.md has a case). Compare `error`. The law and the sampler depend
    on labels only.

    Noise is drawn exactly where the boundary of K can be triangulated (up to nine dimensions), and by rejection where that
    accepts often enough: from l1 noise that keeps the invariants (disjoint totals and tables with both margins), or, for
    substitutions on the cells themselves, from l1 noise on the cells (6 x 6 tables with both margins: a third of a second).
    Elsewhere it is drawn by hit-and-run, which is approximate; nothing here certifies it (`certify` does not), and the
    guarantee says so. ``law.sampler`` says which it is.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    epsilon : float
        Loss for neighbouring tables.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.
    sweeps : int
        Length of the chain behind each draw where noise is not drawn exactly.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not positive, the invariants determine the whole table or all answers, there are too many
        differences of neighbours to list, or they leave a direction of the noise space alone.

    See Also
    --------
    WideKNorm : a larger ball where that has less error.
    ExtendedLaplace : independent noise in coordinates; its ball is larger, too.
    bayesdp.noise.KNorm : the law of the noise.
    bayesdp.distributions.KNorm : that law as a PyMC distribution.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy; Awan and Slavkovic (2021), Structure and
    Sensitivity in Differential Privacy: Comparing K-Norm Mechanisms; for subspace differential privacy Gao, Gong and Yu
    (2022), Section 3.

    Examples
    --------
    With one total, K is half the l1 ball: no cell is worth more than another, and less noise than of
    `ProjectedLaplace` does here.

    >>> from bayesdp.mechanisms import ProjectedLaplace
    >>> from bayesdp.queries import Totals
    >>> total = Totals({"county": ["Alpha", "Beta", "Gamma"]})
    >>> print(f"{KNorm(total, epsilon=0.5).error:.2f} {ProjectedLaplace(total, epsilon=0.5).error:.2f}")
    40.00 64.00
    """

    epsilon: float
    sweeps: int = field(default=DEFAULT_SWEEPS, kw_only=True)

    name = "k-norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        positive_integer(self.sweeps, "sweeps")
        spanned = int(np.linalg.matrix_rank(self._vertices, rtol=1e-9)) if len(self._vertices) else 0
        if spanned < self.answer_invariants.dimension:
            raise ValueError(
                f"differences of neighbours (neighbours={self.neighbours!r}) span {spanned} of the "
                f"{self.answer_invariants.dimension} dimensions of the noise, so that the K-norm mechanism is not defined: "
                "with substitution, add the total number of records to the invariants, or take neighbours='add-remove'"
            )

    @cached_property
    def _vertices(self) -> npt.NDArray[np.float64]:
        return neighbour_differences(self.released_query, self.invariants, self.neighbours)

    @property
    def sensitivity(self) -> float:
        """The largest K norm of a difference of neighbours: 1, by definition of K."""
        return 1.0

    @cached_property
    def law(self) -> Law:
        """The law of the noise."""
        return Law(self.epsilon, self._vertices, self.answer_invariants.coordinate_rule)

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where the boundary of K is not triangulated."""
        moment = self.law.hull.second_moment
        return None if moment is None else float(np.trace(moment)) / self.epsilon**2

    @property
    def _noise_scale(self) -> float:
        # The spread of the differences in the direction in which they are smallest.
        spread = np.linalg.eigvalsh(self._vertices.T @ self._vertices / len(self._vertices))[0]
        return float(np.sqrt(spread)) / self.epsilon

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        relations = self.answer_invariants
        generator = np.random.default_rng() if rng is None else rng
        points = sample_hull(self.law.hull, self.epsilon, generator, size, relations, method, self.sweeps)
        return on_grid(relations.from_coordinates(points), self.grid, relations)

    def _guarantee(self, method: str) -> Guarantee:
        sampler = choose_hull_sampler(self.law.hull, self.answer_invariants, method, self.sweeps)
        own = super()._guarantee("auto")  # what is said of the pairs does not depend on the sampler
        return own if sampler.exact else replace(own, sampler=hit_and_run_sampler(self.sweeps))

    @property
    def _own_guarantee(self) -> Guarantee:
        return Guarantee("pure", LossAt(PureDP(self.epsilon), 1.0), "K")

    @property
    def _difference_norm(self) -> DifferenceNorm:
        return DifferenceNorm(
            self.released_query,
            self.invariants,
            self.neighbours,
            1.0,
            "K",
            self.answer_invariants.coordinates,
            self.law.hull.gauge,
            _MEASURED,
        )

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.epsilon * size)


@dataclass(frozen=True)
class WideKNorm(KNorm):
    """Publish answers with K-norm noise of a ball around the hull of all differences of neighbours, chosen for less error.

    The hull K of `KNorm` is the smallest ball that hides all neighbours. Where neighbours differ much more in some directions than in
    others, a larger ball has less error: the norm is a sum of norms of projections of K onto ranges of the principal axes of the
    differences, cut where that lessens the expected squared error (`bayesdp.polytopes.sums`). Noise is drawn exactly, also in
    more dimensions than `KNorm` can, as long as the pieces have at most nine each.

    It is never worse than `KNorm` where that states its error. Where all axes are equally long, as for the cells of a table
    with one total or both margins, no cut is made and it is `KNorm`. It is not the best of all balls: only sums of this form are
    compared, so that coordinates that happen to fit better can still win; and weights are optimised at one cut after the other,
    which with three pieces or more can miss a little (below one percent in simulations). Compare `error`.

    Parameters
    ----------
    invariants : Query, iterable of Query, or Invariants
        What is published exactly.
    epsilon : float
        Loss for neighbouring tables.
    query : Query, optional
        What the noise is added to; the cells themselves if left out.
    neighbours : {"substitution", "add-remove"}
        Neighbouring tables: one record changes its cell, or one record comes or goes.
    sweeps : int
        Length of the chain behind each draw with ``method="mcmc"``.

    Raises
    ------
    TypeError, ValueError
        As `KNorm`.
    NotImplementedError
        If more than nine dimensions have axes of the same length (or fewer, with very many differences of neighbours), so that they
        cannot be cut, or there are more than 24 different lengths.

    See Also
    --------
    KNorm : the smallest ball.
    bayesdp.noise.KNorm : the law of the noise.

    References
    ----------
    Bhaskara, Dadush, Krishnaswamy and Talwar (2012), Unconditional Differentially Private Mechanisms for Linear Queries; Gao, Gong and
    Yu (2022), Subspace Differential Privacy, end of Section 3.4.

    Examples
    --------
    A hundred times the number of records, and the difference of two halves:

    >>> from bayesdp import Invariants
    >>> from bayesdp.queries import LinearQuery
    >>> cells = {"cell": ["a", "b", "c", "d"]}
    >>> query = LinearQuery(cells, [[100, 100, 100, 100], [1, 1, -1, -1]], ["hundredfold", "difference"])
    >>> for kind in (KNorm, WideKNorm):
    ...     print(f"{kind(Invariants(frame=cells), 1.0, query=query, neighbours='add-remove').error:.0f}")
    40004
    22916
    """

    name = "wide-k-norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self._sum  # refuse here what has no such ball, and not at a release

    @cached_property
    def _sum(self) -> NormSum:
        found = least_sum(self._vertices)
        if found is None:
            raise NotImplementedError(
                f"query leaves {self.answer_invariants.dimension} dimensions for the noise, and the differences of "
                f"neighbours more than nine principal axes of the same length, or more than {MAX_AXES} different lengths: no "
                "ball is known that can be drawn from exactly; use KNorm"
            )
        return found

    @property
    def cuts(self) -> tuple[int, ...]:
        """Dimensions of the pieces, from the long axes to the short ones; one number where the ball is that of `KNorm`."""
        return tuple(own.basis.shape[1] for own in self._sum.pieces)

    @cached_property
    def law(self) -> Law:
        """The law of the noise."""
        whole = len(self._sum.pieces) == 1
        vertices = self._vertices if whole else self._sum.vertices
        return Law(self.epsilon, vertices, self.answer_invariants.coordinate_rule)

    @property
    def error(self) -> float:
        """Expected total squared error of the answers."""
        return self._sum.error / self.epsilon**2

    def _draw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        if method not in ("auto", "exact"):
            return super()._draw(rng, size, method)
        relations = self.answer_invariants
        generator = np.random.default_rng() if rng is None else rng
        points = self._sum.draw(self.epsilon, generator, size)
        return on_grid(relations.from_coordinates(points), self.grid, relations)

    def _guarantee(self, method: str) -> Guarantee:
        if method not in ("auto", "exact"):
            return super()._guarantee(method)
        return SubspaceMechanism._guarantee(self, "auto")  # all draws are exact, piece by piece
