"""The K-norm law: noise with exponentially falling density in the norm whose unit ball is a given polytope."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.hulls import SymmetricHull, choose_hull_sampler, shared
from bayesdp.invariants import COORDINATE_RULES, Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise._arrays import positive_rate
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.polytope.base import hull_draw, hull_logp, hull_variance
from bayesdp.noise.tables import needed

__all__ = ["KNorm"]


@dataclass(frozen=True, eq=False)
class KNorm(NoiseLaw):
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
    bayesdp.KNorm : the mechanism that adds this noise.
    bayesdp.hulls : norms, volumes and samplers.

    References
    ----------
    Hardt and Talwar (2010), On the Geometry of Differential Privacy; Awan and Slavkovic (2021), Structure and
    Sensitivity in Differential Privacy: Comparing K-Norm Mechanisms.

    Examples
    --------
    Over two cells with a fixed total, one record that changes its cell is the vertex ``sqrt(2)``: the first cell gets
    Laplace noise of rate epsilon.

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
    support = "subspace"
    integer = False
    isotropic = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        _validate.choice(self.coordinates, COORDINATE_RULES, "coordinates")
        object.__setattr__(self, "vertices", SymmetricHull(self.vertices).vertices)

    @cached_property
    def hull(self) -> SymmetricHull:
        """The polytope K."""
        return shared(SymmetricHull(self.vertices))

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density in orthonormal coordinates; ``-inf`` off the subspace. See `NoiseLaw.logp`.

        Where the volume of K is not computed, ``log(n! vol(K))`` is taken as 0: the result is then right up to a
        constant that depends on K only. A table counts as off the subspace under the same tolerance as in
        `ProjectedGaussian.logp`.
        """
        own = self._fits(needed(invariants, None, self.name))
        return hull_logp(self.hull, self.epsilon, values, location, own)

    @property
    def log_normaliser(self) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        cones = self.hull.log_cone_mass
        return None if cones is None else cones - self.hull.dimension * math.log(self.epsilon)

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is: see `bayesdp.hulls.choose_hull_sampler`."""
        return choose_hull_sampler(self.hull, self._fits(invariants))

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw noise that changes no invariant, or noisy tables around a table. See `NoiseLaw.draw`.

        Exactly or by hit-and-run: `sampler` says which, and how.
        """
        own = self._fits(needed(invariants, shape, self.name))
        return hull_draw(self.hull, self.epsilon, rng, size, own, location)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where the boundary of K is not triangulated."""
        own = self._fits(needed(invariants, shape, self.name))
        return hull_variance(self.hull, self.epsilon, own)

    def _fits(self, invariants: Invariants) -> Invariants:
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
        return invariants

    # The description holds all vertices as text: compared and hashed are the numbers themselves.
    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, KNorm)
            and (self.epsilon, self.coordinates) == (other.epsilon, other.coordinates)
            and np.array_equal(self.vertices, other.vertices)
        )

    def __hash__(self) -> int:
        return hash((self.epsilon, self.coordinates, self.vertices.tobytes()))

    def __str__(self) -> str:
        count, dimension = self.vertices.shape
        return (
            f"{self.name} epsilon={self.epsilon:.6g} vertices=<{count} pairs in {dimension} dimensions> "
            f"coordinates={self.coordinates}"
        )
