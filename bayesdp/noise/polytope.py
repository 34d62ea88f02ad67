"""The K-norm laws: noise whose density falls in the norm that has a given polytope as its unit ball."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler
from bayesdp.lattices.polytopes import (
    Hull,
    SensitivityHull,
    SymmetricHull,
    choose_hull_sampler,
    sample_hull,
    sensitivity_hull,
)
from bayesdp.noise.subspace.laws import CoordinateLaw, SubspaceLaw


@lru_cache(maxsize=8)
def _shared(hull: SymmetricHull) -> SymmetricHull:
    """The hull that was first asked for with these vertices, so that facets are computed once a process."""
    return hull


class HullLaw(SubspaceLaw):
    """Noise with a density proportional to ``exp(-epsilon ||Q^T z||_K)``; the normaliser is ``n! vol(K) / epsilon**n``."""

    epsilon: float
    family = "polytope"
    scale_name = "epsilon"

    @abstractmethod
    def ball(self, invariants: Invariants) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""

    def check_fit(self, invariants: Invariants) -> None:
        """Insist that there is such a polytope."""
        self.ball(invariants)

    def measured(self, noise: Floats, invariants: Invariants) -> Any:
        """The norm of the noise."""
        return self.ball(invariants).gauge(invariants.coordinates(noise))

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at a norm; where the volume of K is not computed, ``log(n! vol(K))`` is taken as 0."""
        constant = self.ball(invariants).log_cone_mass or 0.0
        return invariants.dimension * xp.log(scale) - constant - scale * measured

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is, exactly or by hit-and-run: see `bayesdp.lattices.polytopes.choose_hull_sampler`."""
        return choose_hull_sampler(self.ball(invariants), invariants)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw noise; `sampler` says how."""
        points = sample_hull(self.ball(invariants), self.epsilon, rng, count, invariants)
        return invariants.from_coordinates(points)

    def _covariance(self, invariants: Invariants) -> Floats | None:
        moments = self.ball(invariants).second_moment
        return None if moments is None else moments / self.epsilon**2

    def _log_integral(self, hull: Hull) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        cones = hull.log_cone_mass
        return None if cones is None else cones - hull.dimension * math.log(self.epsilon)


@dataclass(frozen=True, eq=False)
class KNorm(HullLaw, CoordinateLaw):
    r"""Noise with density proportional to ``exp(-epsilon ||Q^T z||_K)`` on ``{z : A z = 0}``, ``K = conv(+-vertices)``.

    ``||v||_K`` is the least r with v in r K, and Q are orthonormal coordinates of the subspace. If K is the hull of the
    differences of neighbours, two neighbours are told apart with a loss of at most epsilon, and no smaller ball does that. (Its
    noise need not have the least expected error: see `bayesdp.KNorm`.) The normaliser is ``log(n! vol(K) / epsilon**n)``, n
    the dimension.

    Parameters
    ----------
    epsilon : float
        Rate for each unit of the norm.
    vertices : array_like, shape (m, n)
        In coordinates Q; one of each pair v, -v. They must span the space.
    coordinates : {"helmert-1", "echelon-1"}
        The rule that fixes Q, see `Invariants.coordinate_rule`.

    See Also
    --------
    bayesdp.distributions.KNorm : the same law as a PyMC distribution.
    bayesdp.KNorm : the mechanism that adds this noise; it takes privacy parameters.
    bayesdp.lattices.polytopes : norms, volumes and samplers.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy; Awan and Slavkovic (2021), Structure and
    Sensitivity in Differential Privacy: Comparing K-Norm Mechanisms.

    Examples
    --------
    Over two cells with a fixed total, one record that changes its cell is the vertex ``sqrt(2)``: the first cell gets
    Laplace noise of rate epsilon.

    >>> import math
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = KNorm(epsilon=0.5, vertices=[[math.sqrt(2)]])
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # -0.5 - log(2 sqrt(2) / 0.5)
    -2.232868
    """

    epsilon: float
    vertices: Floats
    coordinates: str = "helmert-1"

    name = "k-norm"
    full_support = True
    _variance_words = "in closed form where the boundary of K can be triangulated"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(vertices=SymmetricHull(self.vertices).vertices)

    @cached_property
    def hull(self) -> SymmetricHull:
        """The polytope K."""
        return _shared(SymmetricHull(self.vertices))

    def ball(self, invariants: Invariants) -> SymmetricHull:
        """The polytope K, whatever the invariants are: its vertices are in coordinates."""
        return self.hull

    @property
    def log_normaliser(self) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        return self._log_integral(self.hull)

    def check_fit(self, invariants: Invariants) -> None:
        """Insist on the rule of the coordinates, and on their number."""
        CoordinateLaw.check_fit(self, invariants)
        if invariants.dimension != self.vertices.shape[1]:
            raise ValueError(
                f"vertices have {self.vertices.shape[1]} coordinates, but these invariants leave {invariants.dimension} "
                "dimensions free"
            )

    def __str__(self) -> str:
        count, dimension = self.vertices.shape
        return (
            f"{self.name} epsilon={self.epsilon:.6g} vertices=<{count} pairs in {dimension} dimensions> "
            f"coordinates={self.coordinates}"
        )


@dataclass(frozen=True, eq=False)
class SemiKNorm(HullLaw):
    r"""Noise with density proportional to ``exp(-epsilon ||z||_K)`` on ``{z : A z = 0}``, K the hull of a sensitivity space.

    K is the hull of all integer tables z with ``A z = 0`` and ``||z||_1 <= 2 adjacency``: of all that so many records can
    change without changing an invariant. Tables that differ by one of these are told apart with a loss of at most epsilon.
    The adjacency and the invariants fix K (`bayesdp.lattices.polytopes.SensitivityHull`): a file needs no list of vertices, which for
    three records and a 10 x 10 table has 88,425 pairs.

    Parameters
    ----------
    epsilon : float
        Rate for each unit of the norm.
    adjacency : int
        Number of records; 2 or 3 for both margins of a table.

    See Also
    --------
    bayesdp.distributions.SemiKNorm : the same law as a PyMC distribution.
    LatticeLaplace : integers, in the l1 or l2 norm.
    KNorm : any polytope, by its vertices.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithms 2 and 3 and Theorem 31.

    Examples
    --------
    Under both margins a 2 x 2 table has one coordinate, and moves one unit of K for each 2 x 2 move.

    >>> from bayesdp.queries import Margins
    >>> table = {"county": ["Alpha", "Beta"], "education": ["Low", "High"]}
    >>> both = Invariants(Margins(table, ["county"], ["education"]))
    >>> law = SemiKNorm(epsilon=0.5, adjacency=3)
    >>> print(f"{law.logp([[4, 1], [2, 5]], [[2, 3], [4, 3]], both):.6f}")  # log(0.5 / 4) - 0.5 * 2
    -3.079442
    """

    epsilon: float
    adjacency: int

    name = "semi-k-norm"
    full_support = True
    family = "semi"
    _variance_words = "for disjoint totals, tables with two rows or columns, and small tables with both margins"

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.adjacency  # text and some files give a float that holds it exactly
        whole = int(given) if isinstance(given, float) and given.is_integer() else given
        self._set(adjacency=_validate.positive_integer(whole, "adjacency"))

    def hull(self, invariants: Invariants) -> SensitivityHull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return sensitivity_hull(invariants, self.adjacency)

    ball = hull

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        return self._log_integral(self.hull(invariants))
