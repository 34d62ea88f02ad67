"""The K-norm law of Semi-DP: its norm has the hull of all that a number of records can change as its unit ball."""

from __future__ import annotations

from dataclasses import dataclass

from bayesdp.invariants import Invariants
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.polytope.k_norm import HullDensity, adjacency_of
from bayesdp.polytopes import SensitivityHull, sensitivity_hull


@dataclass(frozen=True, eq=False)
class SemiKNorm(HullDensity):
    r"""Noise with density proportional to ``exp(-epsilon ||z||_K)`` on ``{z : A z = 0}``, K the hull of a sensitivity space.

    K is the hull of all integer tables z with ``A z = 0`` and ``||z||_1 <= 2 adjacency``: of all that so many records can
    change without changing an invariant. Tables that differ by one of these are told apart with a loss of at most epsilon.
    The adjacency and the invariants fix K (`bayesdp.polytopes.SensitivityHull`): a file needs no list of vertices, which for
    three records and a 10 x 10 table has 88,425 pairs.

    ========  =====================================================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  for disjoint totals, tables with two rows or columns, and small tables with both margins
    ========  =====================================================================================

    Parameters
    ----------
    epsilon : float
        Rate for each unit of the norm.
    adjacency : int
        Number of records; 2 or 3 for both margins of a table.

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, or adjacency not a positive integer.

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
    everywhere = True
    family = "semi"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        object.__setattr__(self, "adjacency", adjacency_of(self.adjacency))

    def hull(self, invariants: Invariants) -> SensitivityHull:
        """The polytope K, in orthonormal coordinates of the invariants."""
        return sensitivity_hull(invariants, self.adjacency)

    ball = hull

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||_K)``, or None where the volume of K is not computed."""
        return self._log_integral(self.hull(invariants))
