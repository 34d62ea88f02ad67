"""Real noise whose density falls exponentially in the l1, l2 or l-infinity norm, on the space that invariants leave free."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.invariants import Invariants
from bayesdp.lattices.samplers import Sampler
from bayesdp.noise._verbs import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.base import Floats
from bayesdp.noise.subspace._norm_draws import norm_sampler
from bayesdp.noise.subspace._norm_sections import log_integral_of, section_of
from bayesdp.noise.subspace.base import SubspaceLaw, cell_variances, share_of_projection
from bayesdp.noise.tables import norm_of
from bayesdp.queries import Query

NORMS = ("l1", "l2", "linf")


@dataclass(frozen=True, eq=False)
class SubspaceNorm(SubspaceLaw):
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
    bayesdp.SemiNorm : the mechanism that adds this noise; it takes privacy parameters.
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
    everywhere = True
    kernel_form = KernelForm("l1")
    scale_name = "epsilon"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        _validate.choice(self.norm, NORMS, "norm")

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """Log-density, but for a constant where `log_normaliser` is not known; see `TableLaw.log_kernel`."""
        constant = log_integral_of(invariants, self.norm) or 0.0
        density = invariants.dimension * xp.log(scale) - constant
        return density - scale * norm_of(xp, measured, self.norm, invariants)

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
        return Sampler(True, found.name, None, found.method, found.acceptance)

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Floats:
        """Draw noise, always exactly or not at all: `sampler` says how, or why not."""
        return norm_sampler(invariants, self.norm).draw(self.epsilon, rng, count)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known."""
        invariants = self.needed(invariants, shape)
        if self.norm == "l2":
            # The squared radius has mean n (n + 1) / epsilon**2, shared by n coordinates alike.
            kept = share_of_projection(invariants)
            return None if kept is None else (invariants.dimension + 1.0) / self.epsilon**2 * kept
        if self.norm == "linf" or invariants.blocks is None:
            section = section_of(invariants, self.norm)
            moments = None if section is None else section.second_moment
            return None if moments is None else cell_variances(moments / self.epsilon**2, invariants)
        # Differences of two uniform points: each coordinate has the variance (2 m - 1) / (m + 1), times 1 - 1/m for a cell.
        blocks = np.asarray(invariants.blocks)
        m = np.bincount(blocks + 1).astype(np.float64)[blocks + 1]
        kept = np.where(blocks < 0, 2.0, (2.0 * m - 1.0) / (m + 1.0) * (1.0 - 1.0 / m))
        return np.asarray(kept.reshape(shape) / self.epsilon**2)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length; lengths in l-infinity are not measured. See `NoiseLaw.pair_loss`."""
        return None if self.norm == "linf" else LossByLength(("pure",), self.norm, exponential_loss(self.epsilon))

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """The form of its norm; the largest cell (l-infinity) is not a sum over cells. See `NoiseLaw.kernel_of`."""
        return None if self.norm == "linf" else KernelForm(self.norm)
