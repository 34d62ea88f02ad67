"""Real noise whose density falls exponentially in the l1, l2 or l-infinity norm, on the space that invariants leave free."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise._arrays import positive_rate
from bayesdp.noise._rng import count_of, generator_of
from bayesdp.noise.base import Floats, NoiseLaw
from bayesdp.noise.polytope.base import hull_variance
from bayesdp.noise.subspace._norm_draws import norm_sampler
from bayesdp.noise.subspace._norm_sections import log_integral_of, section_of
from bayesdp.noise.subspace.projected_gaussian import TOLERANCE, ProjectedGaussian
from bayesdp.noise.tables import needed, table_difference, table_location

__all__ = ["NORM_ORDERS", "SubspaceNorm"]

NORM_ORDERS = {"l1": 1.0, "l2": 2.0, "linf": math.inf}
"""The order of each norm, as NumPy takes it."""


@dataclass(frozen=True, eq=False)
class SubspaceNorm(NoiseLaw):
    r"""Noise with density proportional to ``exp(-epsilon ||z||)`` on ``{z : A z = 0}``.

    Two tables x, x' with the same invariants are told apart with a loss of at most ``epsilon ||x - x'||``. This is the noise of
    the l1, l2 and l-infinity mechanisms conditioned on the invariants, not projected: see `ProjectedLaplace` for that.

    ========  ==========================================================
    Support   tables of real numbers that change no invariant
    Mean      0
    Variance  for l2; for l1 with disjoint totals; in few dimensions
    ========  ==========================================================

    Parameters
    ----------
    epsilon : float
        Rate per count.
    norm : {"l1", "l2", "linf"}, default "l1"

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, or the norm is unknown.

    See Also
    --------
    bayesdp.distributions.SubspaceNorm : the same law as a PyMC distribution.
    bayesdp.SemiNorm : the mechanism that adds this noise.
    LatticeLaplace : the same on integers, l1 and l2.

    References
    ----------
    Cho and Awan, Formal Privacy Guarantees with Invariant Statistics, Algorithms 4 to 6, within the span of the sensitivity
    space (Proposition 25).

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = SubspaceNorm(epsilon=0.5, norm="l1")
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # in the coordinate sqrt(2) u: log(0.5 sqrt(2) / 2) - 0.5 * 2
    -2.039721
    """

    epsilon: float
    norm: str = "l1"

    name = "subspace-norm"
    support = "subspace"
    integer = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        _validate.choice(self.norm, tuple(NORM_ORDERS), "norm")

    def logp(self, values: npt.ArrayLike, location: npt.ArrayLike, invariants: Invariants | None = None) -> float:
        """Log-density in orthonormal coordinates; ``-inf`` off the subspace. See `NoiseLaw.logp`.

        Where `log_normaliser` is not known it is taken as 0: the result is then right up to a constant that
        depends on epsilon, the norm and the invariants only. A table counts as off the subspace under the same
        tolerance as in `ProjectedGaussian.logp`.
        """
        own = needed(invariants, None, self.name)
        difference = table_difference(values, location, own)
        inside = own.project(difference)
        magnitude = max(1.0, float(np.max(np.abs(values))), float(np.max(np.abs(location))))
        if float(np.max(np.abs(difference - inside))) > TOLERANCE * magnitude:
            return -math.inf
        size = float(np.linalg.norm(inside.reshape(-1), ord=NORM_ORDERS[self.norm]))
        return -self.epsilon * size - (self.log_normaliser(own) or 0.0)

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the integral of ``exp(-epsilon ||v||)`` in orthonormal coordinates, or None where it is not computed.

        Known for l2, for disjoint totals, for tables with two rows or columns, and for small tables: 3 x c up to c = 4 (l1),
        up to five dimensions (l-infinity).
        """
        unit = log_integral_of(invariants, self.norm)
        return None if unit is None else unit - invariants.dimension * math.log(self.epsilon)

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn, before any is: always exactly.

        Raises
        ------
        NotImplementedError
            If no exact sampler is practical: the message says why.
        """
        found = norm_sampler(invariants, self.norm)
        return Sampler(True, found.name, None, found.words, found.acceptance)

    def draw(
        self,
        rng: _validate.Seed,
        shape: tuple[int, ...],
        size: int | None = None,
        invariants: Invariants | None = None,
        location: npt.ArrayLike | None = None,
    ) -> Floats:
        """Draw noise that changes no invariant, or noisy tables around a table. See `NoiseLaw.draw`.

        Always exactly, or not at all: `sampler` says how, or why not.
        """
        own = needed(invariants, shape, self.name)
        count = 1 if size is None else count_of(size)
        noise = norm_sampler(own, self.norm).draw(self.epsilon, generator_of(rng), count)
        return np.asarray(table_location(location, own) + (noise[0] if size is None else noise), dtype=np.float64)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known."""
        own = needed(invariants, shape, self.name)
        if self.norm == "l2":
            # The squared radius has mean n (n + 1) / epsilon**2, shared by n coordinates alike.
            return ProjectedGaussian(math.sqrt(own.dimension + 1.0) / self.epsilon).variance(shape, own)
        if self.norm == "linf" or own.blocks is None:
            section = section_of(own, self.norm)
            return None if section is None else hull_variance(section, self.epsilon, own)
        # Differences of two uniform points: each coordinate has the variance (2 m - 1) / (m + 1), times 1 - 1/m for a cell.
        blocks = np.asarray(own.blocks)
        m = np.bincount(blocks + 1).astype(np.float64)[blocks + 1]
        kept = np.where(blocks < 0, 2.0, (2.0 * m - 1.0) / (m + 1.0) * (1.0 - 1.0 / m))
        return np.asarray(kept.reshape(shape) / self.epsilon**2)
