"""The K-norm law: noise with exponentially falling density in the norm whose unit ball is a given polytope.

What the laws share whose mass or density falls in the norm of a polytope.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace.base import CoordinateLaw, SubspaceLaw, cell_variances
from bayesdp.noise.tables import TableLaw
from bayesdp.polytopes import Hull, SymmetricHull, choose_hull_sampler, sample_hull, shared


def adjacency_of(value: Any) -> int:
    """Accept a number of records; also as a float that holds it exactly, as text and some files give numbers."""
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    return _validate.positive_integer(whole, "adjacency")


class HullLaw(TableLaw):
    """Noise with a kernel ``exp(-epsilon ||Q^T z||_K)``."""

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
        """``-epsilon ||Q^T z||_K``; see `TableLaw.log_kernel`."""
        return -scale * measured


class HullDensity(HullLaw, SubspaceLaw):
    """Such noise of real numbers, with the normaliser ``n! vol(K) / epsilon**n``."""

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density at a norm; where the volume of K is not computed, ``log(n! vol(K))`` is taken as 0."""
        constant = self.ball(invariants).log_cone_mass or 0.0
        return invariants.dimension * xp.log(scale) - constant - scale * measured

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is, exactly or by hit-and-run: see `bayesdp.polytopes.choose_hull_sampler`."""
        return choose_hull_sampler(self.ball(invariants), invariants)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw noise; `sampler` says how."""
        points = sample_hull(self.ball(invariants), self.epsilon, rng, count, invariants)
        return invariants.from_coordinates(points)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where second moments of K are not known."""
        invariants = self.needed(invariants, shape)
        moments = self.ball(invariants).second_moment
        return None if moments is None else cell_variances(moments / self.epsilon**2, invariants)

    def _log_integral(self, hull: Hull) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        cones = hull.log_cone_mass
        return None if cones is None else cones - hull.dimension * math.log(self.epsilon)


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
    bayesdp.polytopes : norms, volumes and samplers.

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
