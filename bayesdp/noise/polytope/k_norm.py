"""The K-norm law: noise with exponentially falling density in the norm whose unit ball is a given polytope."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from bayesdp.hulls import SymmetricHull, shared
from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.base import Floats
from bayesdp.noise.polytope.base import HullDensity
from bayesdp.noise.subspace.coordinates import CoordinateLaw


@dataclass(frozen=True, eq=False)
class KNorm(HullDensity, CoordinateLaw):
    r"""Noise with density proportional to ``exp(-epsilon ||Q^T z||_K)`` on ``{z : A z = 0}``, ``K = conv(+-vertices)``.

    ``||v||_K`` is the least r with v in r K, and Q are orthonormal coordinates of the subspace. If K is the hull of the
    differences of neighbours, two neighbours are told apart with a loss of at most epsilon, and no smaller ball does that. (Its
    noise need not have the least expected error: see `bayesdp.KNorm`.) The normaliser is ``log(n! vol(K) / epsilon**n)``, n
    the dimension.

    ========  ============================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  in closed form where the boundary of K can be triangulated
    ========  ============================================================

    Parameters
    ----------
    epsilon : float
        Rate for each unit of the norm.
    vertices : array_like, shape (m, n)
        In coordinates Q; one of each pair v, -v. They must span the space.
    coordinates : {"helmert-1", "echelon-1"}
        The rule that fixes Q, see `Invariants.coordinate_rule`.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, the vertices do not span the space, or the rule is unknown.

    See Also
    --------
    bayesdp.distributions.KNorm : the same law as a PyMC distribution.
    bayesdp.KNorm : the mechanism that adds this noise; it takes privacy parameters.
    bayesdp.hulls : norms, volumes and samplers.

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
    everywhere = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        self._check_rule()
        object.__setattr__(self, "vertices", SymmetricHull(self.vertices).vertices)

    @cached_property
    def hull(self) -> SymmetricHull:
        """The polytope K."""
        return shared(SymmetricHull(self.vertices))

    def ball(self, invariants: Invariants) -> SymmetricHull:
        """The polytope K, whatever the invariants are: its vertices are in coordinates."""
        return self.hull

    @property
    def log_normaliser(self) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        return self._log_integral(self.hull)

    def check_fit(self, invariants: Invariants) -> None:
        """Insist on the rule of the coordinates, and on their number."""
        if invariants.coordinate_rule != self.coordinates:
            raise ValueError(
                f"the vertices of the law are in coordinates {self.coordinates!r}, but those of these invariants are "
                f"{invariants.coordinate_rule!r}"
            )
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
