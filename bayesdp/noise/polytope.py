"""The K-norm laws: noise whose mass or density falls in the norm that has a given polytope as its unit ball."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler
from bayesdp.lattices.sums import l1_log_sum
from bayesdp.noise.base import Floats, Ints
from bayesdp.noise.lattice.laws import LatticeLaw
from bayesdp.noise.subspace.laws import CoordinateLaw, SubspaceLaw
from bayesdp.noise.tables import TableLaw
from bayesdp.polytopes import (
    Hull,
    SensitivityHull,
    SymmetricHull,
    choose_hull_sampler,
    choose_lattice_sampler,
    sample_hull,
    sample_lattice,
    sensitivity_hull,
    shared,
)


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

    def _covariance(self, invariants: Invariants) -> Floats | None:
        moments = self.ball(invariants).second_moment
        return None if moments is None else moments / self.epsilon**2

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
    full_support = True
    _variance_words = "in closed form where the boundary of K can be triangulated"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(vertices=SymmetricHull(self.vertices).vertices)

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
class SemiKNorm(HullDensity):
    r"""Noise with density proportional to ``exp(-epsilon ||z||_K)`` on ``{z : A z = 0}``, K the hull of a sensitivity space.

    K is the hull of all integer tables z with ``A z = 0`` and ``||z||_1 <= 2 adjacency``: of all that so many records can
    change without changing an invariant. Tables that differ by one of these are told apart with a loss of at most epsilon.
    The adjacency and the invariants fix K (`bayesdp.polytopes.SensitivityHull`): a file needs no list of vertices, which for
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
    LatticeKNorm : the same norm on integers.
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
        self._set(adjacency=adjacency_of(self.adjacency))

    def hull(self, invariants: Invariants) -> SensitivityHull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return sensitivity_hull(invariants, self.adjacency)

    ball = hull

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        return self._log_integral(self.hull(invariants))


@dataclass(frozen=True, eq=False)
class LatticeKNorm(HullLaw, LatticeLaw):
    r"""Noise with mass proportional to ``exp(-epsilon ||z||_K)`` on ``{z integer : A z = 0}``, K a polytope.

    Either K is the hull of all that a number of records can change without changing an invariant, as for `SemiKNorm`, and
    the adjacency says all; or its vertices are listed, as tables of integers. Tables that differ by a vertex are told apart
    with a loss of at most epsilon.

    Parameters
    ----------
    epsilon : float
        Rate for each unit of the norm.
    adjacency : int, optional
        Number of records; 2 or 3 for both margins of a table.
    vertices : array_like of int, shape ``(m, *table)``, optional
        Instead: one of each pair v, -v, each of which changes no invariant. They must span all that changes none.

    See Also
    --------
    bayesdp.distributions.LatticeKNorm : the same law as a PyMC distribution.
    SemiKNorm, KNorm : the same norms on real numbers.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithm 2; on integers as in Dharangutte, Gao, Gong
    and Yu (2023), Integer Subspace Differential Privacy.

    Examples
    --------
    Two cells with a fixed total: one record that changes its cell is one unit.

    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = LatticeKNorm(epsilon=0.5, adjacency=1)
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # -0.5 - log coth(0.25)
    -1.906829
    """

    epsilon: float
    adjacency: int | None = None
    vertices: Ints | None = None

    name = "lattice-k-norm"
    full_support = True
    isotropic = False
    unknown_sum = "it is computed only where the norm is a multiple of the l1 norm and that sum is known"

    _variance_words = "not in closed form"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.adjacency is None) == (self.vertices is None):
            raise ValueError("K needs either adjacency or vertices, and not both")
        if self.adjacency is not None:
            self._set(adjacency=adjacency_of(self.adjacency))
        else:
            array = np.array(_validate.integer_array(self.vertices, "vertices"), dtype=np.int64)
            if array.ndim < 2 or not array.size:
                raise ValueError(f"vertices must be tables, shape (m, *table), got an array of shape {array.shape}")
            array.flags.writeable = False
            self._set(vertices=array)

    def describe(self) -> dict[str, Any]:
        """Describe the law, see `NoiseLaw.describe`; what does not fix K is left out."""
        return {key: value for key, value in super().describe().items() if value is not None}

    def hull(self, invariants: Invariants) -> Hull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        if self.adjacency is not None:
            return sensitivity_hull(invariants, self.adjacency)
        assert self.vertices is not None  # one of the two is given
        return _listed(self.vertices.tobytes(), self.vertices.shape, invariants)

    ball = hull

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        multiple = self.l1_multiple(invariants)
        return None if multiple is None else l1_log_sum(invariants, scale * multiple, xp)

    def l1_multiple(self, invariants: Invariants) -> float | None:
        """How many times the l1 norm the norm is; None if it is another norm."""
        hull = self.hull(invariants)
        return 1.0 / hull.reach if isinstance(hull, SensitivityHull) and hull.is_l1 else None

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is: see `bayesdp.polytopes.choose_lattice_sampler`."""
        return choose_lattice_sampler(self.hull(invariants), invariants, self.epsilon)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Ints:
        """Draw noise, always exactly or not at all: `sampler` says how, or why not."""
        return sample_lattice(self.hull(invariants), invariants, self.epsilon, rng, count)


@lru_cache(maxsize=16)
def _listed(content: bytes, shape: tuple[int, ...], invariants: Invariants) -> SymmetricHull:
    """The hull of listed vertices, made once a process."""
    tables = np.frombuffer(content, dtype=np.int64).reshape(shape)
    if shape[1:] != invariants.frame.shape:
        raise ValueError(f"vertices must have shape (m, *{invariants.frame.shape}), got {shape}")
    for number, table in enumerate(tables):
        if not invariants.is_null(table):
            raise ValueError(f"vertices must change no invariant, but vertex {number} does")
    return shared(SymmetricHull(invariants.coordinates(tables)))
