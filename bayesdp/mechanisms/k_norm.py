"""K-norm mechanisms: noise in the norm whose unit ball K is the hull of all that is to be hidden, or a ball around it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp import noise, polytopes
from bayesdp._validate import positive_integer
from bayesdp.lattices import Sampler
from bayesdp.mechanisms.families import PureStatement, RealNoise
from bayesdp.mechanisms.protects import FittedToNeighbours, SemiAdjacentAnswers, SemiAdjacentTables
from bayesdp.noise.arrays import positive_rate
from bayesdp.polytopes.sums import MAX_AXES, NormSum, least_sum
from bayesdp.privacy import DIFFERENCES, EXACT_SAMPLER, Difference
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement

_MEASURED = 5000
"""Differences whose norm K is computed; more are bounded."""


@dataclass(frozen=True)
class HullNoise(PureStatement):
    """Noise whose density falls with the norm of a polytope K."""

    _unit = "K"
    _checked = staticmethod(positive_rate)

    @property
    def _ball(self) -> polytopes.Hull:
        law: Any = self.law
        ball: polytopes.Hull = law.ball(self.answer_invariants)
        return ball

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.epsilon * size)


@dataclass(frozen=True)
class RealHullNoise(HullNoise, RealNoise):
    """The same on real numbers.

    Parameters
    ----------
    sweeps : int
        Length of the chain behind each draw where noise is not drawn exactly.
    """

    sweeps: int = field(default=polytopes.DEFAULT_SWEEPS, kw_only=True)

    def __post_init__(self) -> None:
        positive_integer(self.sweeps, "sweeps")
        super().__post_init__()

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where the second moments of K are not computed."""
        moment = self._ball.second_moment
        return None if moment is None else float(np.trace(moment)) / self.epsilon**2

    def _drawn_by(self, method: str) -> Sampler:
        return polytopes.choose_hull_sampler(self._ball, self.answer_invariants, method, self.sweeps)

    def _sampler(self, method: str) -> SamplerStatement:
        return EXACT_SAMPLER if self._drawn_by(method).exact else SamplerStatement("hit-and-run", self.sweeps)

    def _points(self, rng: np.random.Generator, size: int, method: str) -> npt.NDArray[np.float64]:
        """Noise in orthonormal coordinates, shape (size, dimension)."""
        return polytopes.sample_hull(self._ball, self.epsilon, rng, size, self.answer_invariants, method, self.sweeps)

    def _raw(self, rng: np.random.Generator | None, size: int, method: str) -> npt.NDArray[np.float64]:
        points = self._points(np.random.default_rng() if rng is None else rng, size, method)
        return np.asarray(self.answer_invariants.from_coordinates(points))


@dataclass(frozen=True)
class KNorm(RealHullNoise, FittedToNeighbours):
    """Publish answers with noise whose density falls with the norm of the hull of all differences of neighbours.

    The density is proportional to ``exp(-epsilon ||Q^T z||_K)``, with Q orthonormal coordinates of the noise space and K
    the symmetric hull of all ``Q^T W u``, u a difference of neighbours: the smallest ball that hides every neighbour at
    loss epsilon, inside that of every other such noise. This is no promise of the least error: where neighbours differ much
    more in one direction than in all others, a larger ball puts less of its noise there (`WideKNorm`, `ExtendedLaplace`;
    docs/CORRECTIONS.md has a case). Compare `error`.

    Noise is drawn exactly where the boundary of K can be triangulated (up to nine dimensions), and by rejection from l1 noise
    where that accepts often enough (6 x 6 tables with both margins: a third of a second). Elsewhere it is drawn by hit-and-run,
    which is approximate; nothing here certifies it (`certify` does not), and the guarantee and ``law.sampler`` say so.

    See Also
    --------
    WideKNorm : a larger ball where that has less error.
    ExtendedLaplace : independent noise in coordinates; its ball is larger, too.
    bayesdp.noise.KNorm, bayesdp.distributions.KNorm : the law, also for PyMC.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy; Awan and Slavkovic (2021), Structure and
    Sensitivity in Differential Privacy: Comparing K-Norm Mechanisms; for subspace differential privacy Gao, Gong and Yu
    (2022), Section 3.

    Examples
    --------
    With one total, K is half the l1 ball: less noise than of `ProjectedLaplace` does here.

    >>> from bayesdp.mechanisms import ProjectedLaplace
    >>> from bayesdp.queries import Totals
    >>> total = Totals({"county": ["Alpha", "Beta", "Gamma"]})
    >>> print(f"{KNorm(total, epsilon=0.5).error:.2f} {ProjectedLaplace(total, epsilon=0.5).error:.2f}")
    40.00 64.00
    """

    name = "k-norm"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_spanned("the K-norm mechanism is not defined")

    @cached_property
    def law(self) -> noise.KNorm:
        """The law of the noise."""
        return noise.KNorm(self.epsilon, self._vectors, self.answer_invariants.coordinate_rule)

    @property
    def _noise_scale(self) -> float:
        # The spread of the differences in the direction in which they are smallest.
        spread = np.linalg.eigvalsh(self._vectors.T @ self._vectors / len(self._vectors))[0]
        return float(np.sqrt(spread)) / self.epsilon

    @property
    def _measure(self) -> dict[str, Any]:
        return {
            "kind": "K",
            "coordinates": self.answer_invariants.coordinates,
            "gauge": self.law.hull.gauge,
            "most": _MEASURED,
        }


@dataclass(frozen=True)
class WideKNorm(KNorm):
    """Publish answers with K-norm noise of a ball around the hull of all differences of neighbours, chosen for less error.

    The hull K of `KNorm` is the smallest ball that hides all neighbours. Where neighbours differ much more in some directions than in
    others, a larger ball has less error: the norm is a sum of norms of projections of K onto ranges of the principal axes of the
    differences, cut where that lessens the expected squared error (`bayesdp.polytopes.sums`). Noise is drawn exactly, also in
    more dimensions than `KNorm` can, as long as the pieces have at most nine each.

    It is never worse than `KNorm` where that states its error, and is `KNorm` where all axes are equally long, as for the cells of a
    table with one total or both margins. It is not the best of all balls: coordinates that happen to fit better can still win, and
    weights are optimised at one cut after the other (below one percent is missed in simulations). Compare `error`.

    Raises
    ------
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
        found = least_sum(self._vectors)
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
        return tuple(piece.basis.shape[1] for piece in self._sum.pieces)

    @cached_property
    def law(self) -> noise.KNorm:
        """The law of the noise."""
        vertices = self._vectors if len(self._sum.pieces) == 1 else self._sum.vertices
        return noise.KNorm(self.epsilon, vertices, self.answer_invariants.coordinate_rule)

    @property
    def error(self) -> float:
        """Expected total squared error of the answers."""
        return self._sum.error / self.epsilon**2

    # Unless a chain is asked for, draws are exact, piece by piece.

    def _sampler(self, method: str) -> SamplerStatement:
        return EXACT_SAMPLER if method in ("auto", "exact") else super()._sampler(method)

    def _points(self, rng: np.random.Generator, size: int, method: str) -> npt.NDArray[np.float64]:
        return (
            self._sum.draw(self.epsilon, rng, size)
            if method in ("auto", "exact")
            else super()._points(rng, size, method)
        )


@dataclass(frozen=True)
class HullOfChanges(HullNoise, SemiAdjacentTables):
    """Noise in the norm of the hull of the sensitivity space: of all that a few records can change while the invariants stay."""

    @property
    def hull(self) -> polytopes.Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return self._ball

    @property
    def _records(self) -> int:
        """The records whose changes have the hull K: those of the paper's convention are two."""
        return 2 if self.convention == "paper" else self.adjacency

    @cached_property
    def _known(self) -> bool:
        """Whether the number of records fixes K without a list of vertices."""
        if self.published is not None or not self.space.is_of_answers:
            return False
        try:
            polytopes.sensitivity_hull(self.answer_invariants, self._records)
        except NotImplementedError:
            return False
        return True

    @cached_property
    def _listed(self) -> npt.NDArray[np.int64]:
        """The differences of the sensitivity space in the shape of the answers, where K has no other description."""
        return self.space.differences.reshape(-1, *self.answer_invariants.frame.shape)

    def _reach(self) -> None:
        """K must have all dimensions, since its noise has those of K."""
        super()._reach()
        free = self.answer_invariants.dimension
        if self.published is not None and self.space.rank < free:
            raise ValueError(
                f"published leaves differences in {self.space.rank} of the {free} dimensions that the invariants leave free, "
                "and noise in the norm of their hull has no more. Leave out the parts of the table that the published answers "
                "determine (strata without records), or take SemiNorm or SemiGaussian"
            )

    @property
    def sensitivity(self) -> float:
        """The largest K norm of a difference: 1, by definition of K (Proposition 30)."""
        return 1.0

    @cached_property
    def true_sensitivity(self) -> float:
        """The same of the sensitivity space of the definition: up to 2 under the paper's convention."""
        if self.convention == "definition":
            return 1.0
        found = [self._size_of(difference) for difference in self.differences]
        return max(size for size in found if size is not None)  # both margins: 2 x 2 moves and perhaps 3-cycles

    def _size_of(self, difference: Difference) -> float | None:
        example = _example(difference, self.invariants.frame.shape, self.invariants.blocks)
        hull = self.hull
        if example is None or not isinstance(hull, polytopes.SensitivityHull):
            return None  # other changes of this kind may have another norm
        return float(hull.gauge(self.invariants.coordinates(example)))


def _example(
    difference: Difference, shape: tuple[int, ...], blocks: npt.NDArray[np.int64] | None
) -> npt.NDArray[np.int64] | None:
    """A change of a kind that all have one norm: among cells of a total, or in a table with both margins."""
    example = np.zeros(shape, dtype=np.int64)
    if difference == DIFFERENCES["substitution"] and blocks is not None:
        block = int(np.argmax(np.bincount(blocks)))
        example.flat[np.flatnonzero(blocks == block)[:2]] = 1, -1
    elif difference == DIFFERENCES["2x2 move"] and len(shape) == 2:
        example[:2, :2] = [[1, -1], [-1, 1]]
    elif difference == DIFFERENCES["3-cycle"] and len(shape) == 2:
        example[:3, :3] = [[1, -1, 0], [0, 1, -1], [-1, 0, 1]]
    else:
        return None
    return example


@dataclass(frozen=True)
class SemiKNorm(RealHullNoise, HullOfChanges, SemiAdjacentAnswers):
    """Publish answers with noise in the norm whose unit ball is the hull of all that a few records can change.

    The density is proportional to ``exp(-epsilon ||z||_K)``, K the hull of the sensitivity space: the smallest ball whose noise
    tells tables with the same invariants, at most `adjacency` substituted records apart, apart with a loss of at most epsilon
    (Theorem 31, which calls it optimal; that is no promise of the least error). For both margins of a table and 3 records K is the
    hull of the 2 x 2 moves and the 3-cycles, which the paper leaves out: docs/CORRECTIONS.md has both. With three rows and columns
    that hull is the cube, and `SemiNorm` with the l-infinity norm the same mechanism.

    Noise is drawn as by `KNorm` (by rejection 5 x 5 tables in milliseconds, 10 x 10 in seconds); ``method="algorithm-3"`` draws by
    the paper's rejection from a cube, for comparison.

    See Also
    --------
    SemiLatticeKNorm : the same on integers.
    KNorm : for neighbours that differ in one record, whether or not the invariants tell them apart.
    bayesdp.noise.SemiKNorm, bayesdp.distributions.SemiKNorm : the law, also for PyMC.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithms 2 and 3, Proposition 30 and Theorem 31.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> margins = Margins(table, ["county"], ["education"])
    >>> for mechanism in (SemiKNorm(margins, epsilon=1.0), SemiKNorm(margins, epsilon=1.0, convention="paper")):
    ...     row = mechanism.guarantee.pairs[0]
    ...     print(f"error {mechanism.error:.1f}: epsilon = {row.loss['epsilon']:.1f}")
    error 64.6: epsilon = 1.0
    error 46.9: epsilon = 2.0
    """

    name = "semi-k-norm"

    @cached_property
    def law(self) -> noise.SemiKNorm | noise.KNorm:
        """The law of the noise."""
        if self._known:
            return noise.SemiKNorm(self.epsilon, self._records)
        relations = self.answer_invariants
        return noise.KNorm(self.epsilon, relations.coordinates(self._listed), relations.coordinate_rule)

    def sampler(self, method: str = "auto") -> Sampler:
        """How noise is drawn, before any is."""
        return self._drawn_by(method)


@dataclass(frozen=True)
class SemiLatticeKNorm(HullOfChanges):
    """Publish integer counts with noise in the norm whose unit ball is the hull of all that a few records can change.

    As `SemiKNorm`, on the integer tables that change no invariant: mass proportional to ``exp(-epsilon ||z||_K)``. Always drawn
    exactly, by rejection from l1 noise on the lattice; where that is not practical, `noise`, `release` and `guarantee` say so by a
    `NotImplementedError`, and `SemiLatticeLaplace` does with a Markov chain.

    See Also
    --------
    SemiLatticeLaplace : noise of the l1 or l2 norm, for any size.
    bayesdp.noise.LatticeKNorm, bayesdp.distributions.LatticeKNorm : the law, also for PyMC.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 2; on integers as in Dharangutte, Gao, Gong
    and Yu (2023), Integer Subspace Differential Privacy.

    Examples
    --------
    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta", "Gamma"], "education": ["Low", "Mid", "High"]}
    >>> mechanism = SemiLatticeKNorm(Margins(table, ["county"], ["education"]), epsilon=1.0)
    >>> release = mechanism.release([[3, 0, 5], [2, 8, 1], [0, 4, 6]], rng=np.random.default_rng(1))
    >>> release.values.sum("education").values.tolist()
    [8, 11, 10]
    """

    name = "semi-lattice-k-norm"

    @cached_property
    def law(self) -> noise.LatticeKNorm:
        """The law of the noise."""
        if self._known:
            return noise.LatticeKNorm(self.epsilon, self._records)
        return noise.LatticeKNorm(self.epsilon, vertices=self._listed)

    def sampler(self) -> Sampler:
        """How noise is drawn, before any is."""
        return self.law.sampler(self.invariants)
