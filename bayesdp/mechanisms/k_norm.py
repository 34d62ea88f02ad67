"""K-norm mechanisms: noise in the norm whose unit ball K is the hull of all that is to be hidden."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp import noise
from bayesdp._arrays import Floats
from bayesdp._validate import positive_integer
from bayesdp.lattices import Sampler, polytopes
from bayesdp.mechanisms.base import PureStatement
from bayesdp.mechanisms.protects import FittedToNeighbours, SemiAdjacentAnswers
from bayesdp.mechanisms.real import RealNoise
from bayesdp.privacy import DIFFERENCES, EXACT_SAMPLER, Difference
from bayesdp.privacy.losses import PureDP
from bayesdp.privacy.words import SamplerStatement

_MEASURED = 5000
"""Differences whose norm K is computed; more are bounded."""


@dataclass(frozen=True)
class HullNoise(PureStatement, RealNoise):
    """Real noise whose density falls with the norm of a polytope K.

    Parameters
    ----------
    sweeps : int
        Length of the chain behind each draw where noise is not drawn exactly.
    """

    sweeps: int = field(default=polytopes.DEFAULT_SWEEPS, kw_only=True)

    _unit = "K"

    def __post_init__(self) -> None:
        positive_integer(self.sweeps, "sweeps")
        super().__post_init__()

    @property
    def _ball(self) -> polytopes.Hull:
        law: Any = self.law
        ball: polytopes.Hull = law.ball(self.answer_invariants)
        return ball

    def _loss_at(self, size: float) -> PureDP:
        return PureDP(self.epsilon * size)

    @property
    def error(self) -> float | None:
        """Expected total squared error of the answers, or None where the second moments of K are not computed."""
        moment = self._ball.second_moment
        return None if moment is None else float(np.trace(moment)) / self.epsilon**2

    def _drawn_by(self, method: str) -> Sampler:
        return polytopes.choose_hull_sampler(self._ball, self.answer_invariants, method, self.sweeps)

    def _sampler(self, method: str) -> SamplerStatement:
        return EXACT_SAMPLER if self._drawn_by(method).exact else SamplerStatement("hit-and-run", self.sweeps)

    def _raw(self, rng: np.random.Generator | None, size: int, method: str) -> Floats:
        source, relations = np.random.default_rng() if rng is None else rng, self.answer_invariants
        points = polytopes.sample_hull(self._ball, self.epsilon, source, size, relations, method, self.sweeps)
        return np.asarray(relations.from_coordinates(points))


@dataclass(frozen=True)
class KNorm(HullNoise, FittedToNeighbours):
    """Publish answers with noise whose density falls with the norm of the hull of all differences of neighbours.

    The density is proportional to ``exp(-epsilon ||Q^T z||_K)``, with Q orthonormal coordinates of the noise space and K
    the symmetric hull of all ``Q^T W u``, u a difference of neighbours: the smallest ball that hides every neighbour at
    loss epsilon, inside that of every other such noise. This is no promise of the least error: where neighbours differ much
    more in one direction than in all others, a larger ball puts less of its noise there (`ExtendedLaplace`;
    docs/CORRECTIONS.md has a case). Compare `error`.

    Noise is drawn exactly where the boundary of K can be triangulated (up to nine dimensions), and by rejection from l1 noise
    where that accepts often enough (4 x 4 tables with both margins). Elsewhere it is drawn by hit-and-run,
    which is approximate; nothing here certifies it (`certify` does not), and the guarantee and ``law.sampler`` say so.

    See Also
    --------
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


_CORNERS = {
    DIFFERENCES["2x2 move"]: [[1, -1], [-1, 1]],
    DIFFERENCES["3-cycle"]: [[1, -1, 0], [0, 1, -1], [-1, 0, 1]],
}


@dataclass(frozen=True)
class SemiKNorm(HullNoise, SemiAdjacentAnswers):
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
    SemiLatticeLaplace : integers, in the l1 or l2 norm.
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
        """The law of the noise; its vertices are listed only where the number of records does not fix them."""
        relations = self.answer_invariants
        if self.published is None and self.space.is_of_answers:
            # Those of the paper's convention are the changes of two records.
            law = noise.SemiKNorm(self.epsilon, 2 if self.convention == "paper" else self.adjacency)
            with suppress(NotImplementedError):
                law.check_fit(relations)
                return law
        differences = self.space.differences.reshape(-1, *relations.frame.shape)
        return noise.KNorm(self.epsilon, relations.coordinates(differences), relations.coordinate_rule)

    @property
    def hull(self) -> polytopes.Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return self._ball

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
        """Of a kind whose changes all have one norm: among cells of a total, or in a table with both margins."""
        example, blocks = np.zeros(self.invariants.frame.shape), self.invariants.blocks
        if not isinstance(self.hull, polytopes.SensitivityHull):
            return None
        if difference == DIFFERENCES["substitution"] and blocks is not None:
            example.flat[np.flatnonzero(blocks == np.argmax(np.bincount(blocks)))[:2]] = 1, -1
        elif difference in _CORNERS and example.ndim == 2:
            corner = _CORNERS[difference]
            example[: len(corner), : len(corner)] = corner
        else:
            return None
        return float(self.hull.gauge(self.invariants.coordinates(example)))

    def sampler(self, method: str = "auto") -> Sampler:
        """How noise is drawn, before any is."""
        return self._drawn_by(method)
