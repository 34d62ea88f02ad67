"""The lattice Laplace law: integer noise that changes no invariant, with exponentially falling mass.

The normaliser of l2 lattice Laplace noise, as a mixture of Gaussian sums.

``exp(-epsilon r) = int_0^inf epsilon / (2 sqrt(pi)) t**(-3/2) exp(-epsilon**2 / (4 t)) exp(-t r**2) dt``, so that with
``Theta(t) = sum_z exp(-t ||z||**2)`` and ``t = exp(u)``

``Z(epsilon) = 1 + int epsilon / (2 sqrt(pi)) exp(-u / 2 - epsilon**2 exp(-u) / 4) (Theta(exp(u)) - 1) du``.

The integrand is analytic for ``|Im u| < pi / 2`` and falls doubly exponentially, and the trapezoidal rule with step h is
off by at most ``2 N / (exp(2 pi a / h) - 1)``, N the integral of the absolute value on the lines ``Im u = +-a``
(Trefethen and Weideman 2014, Theorem 5.1). Taking absolute values gives ``N <= cos(a)**(-1/2) Z(epsilon cos a)``, and by
Poisson's formula ``epsilon**n Z(epsilon)`` grows with epsilon, so that ``N <= cos(a)**(-n-1/2) Z(epsilon)``. The step is
chosen so that the relative error is below 1e-16, and so are the ends of the range.

For small t, ``Theta(t) = (pi / t)**(n/2) / V`` up to a factor between 1 and ``1 + 1e-13`` below some t_c (V the volume
of a cell). Below a smallest epsilon the first term of Poisson's formula alone is used, which is what that expression
gives: with ``v = epsilon**2 / (4 t_c)`` its relative error is at most ``2 v**((n+1)/2) / Gamma((n+1)/2) + 1e-13``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import gammainccinv, gammaln

from bayesdp import _validate, lattices
from bayesdp.invariants import Invariants
from bayesdp.lattices import Sampler, sampler_for
from bayesdp.lattices.exact.fixed_sum import both_sides, log_sum_exp
from bayesdp.lattices.parts import Table, lattice_parts
from bayesdp.lattices.sums.sums import Multiples, added, l1_log_sum, l2_sums, log_coth
from bayesdp.noise.arrays import positive_rate
from bayesdp.noise.base import Floats, Ints, KernelForm, LossByLength, exponential_loss
from bayesdp.noise.lattice.base import LatticeLaw, Line, laplace_variance, parts
from bayesdp.noise.lattice.lattice_gaussian import l2_log_sum
from bayesdp.noise.lattice.linear import cell_masses, size_masses
from bayesdp.noise.namespace import softplus
from bayesdp.noise.tables import norm_of
from bayesdp.queries import Query

_DIMENSIONS = 5_000
"""Lattices with more dimensions are not computed: they need thousands of Gaussian sums."""

_LOG_ERROR = 37.0  # exp(-37) < 1e-16


@dataclass(frozen=True, eq=False)
class RadialSum:
    """``Z = 1 + epsilon sum_k exp(log_weights[k] - epsilon**2 inverse[k])`` from `smallest` on.

    Parameters
    ----------
    inverse : float64 array
        ``1 / (4 t)`` at the nodes.
    log_weights : float64 array
    smallest : float
        Epsilon below which ``Z = exp(log_scale) epsilon**-dimension``.
    log_scale : float
    dimension : int
    """

    inverse: Floats
    log_weights: Floats
    smallest: float
    log_scale: float
    dimension: int

    def log_sum(self, epsilon: Any, xp: Any = np) -> Any:
        """Logarithm of the sum of ``exp(-epsilon ||z||_2)`` over the lattice."""
        small, low, high = both_sides(xp, epsilon, self.smallest)
        others = xp.log(high) + log_sum_exp(xp, self.log_weights - xp.expand_dims(high, -1) ** 2 * self.inverse)
        return xp.where(small, self.log_scale - self.dimension * xp.log(low), softplus(xp, others))


@lru_cache(maxsize=64)
def radial_sum(invariants: Invariants) -> RadialSum | None:
    """Prepare the normaliser of l2 noise on the lattice of the invariants.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> rule = radial_sum(Invariants(Totals({"county": ["Alpha", "Beta"]})))
    >>> print(f"{rule.log_sum(0.5):.10f} {-math.log(math.tanh(0.25 * math.sqrt(2))):.10f}")  # a closed form
    1.0802132970 1.0802132970
    """
    n = invariants.dimension
    if not 0 < n <= _DIMENSIONS or l2_log_sum(invariants, 1.0) is None:
        return None

    def log_theta(t: float) -> float:
        value = l2_log_sum(invariants, math.sqrt(0.5 / t))
        assert value is not None
        return float(value)

    def from_volume(t: float) -> float:
        return log_theta(t) - 0.5 * n * math.log(math.pi / t)

    largest = 64.0  # of lengths 1 and more: Theta(t) - 1 <= exp(-t / 2) Theta(t / 2)
    while log_theta(0.5 * largest) - 0.5 * largest > -_LOG_ERROR:
        largest *= 1.5
    simple = 1.0
    while from_volume(simple) - from_volume(simple / 16.0) > 1e-13:
        simple *= 0.5
    shape = 0.5 * (n + 1)
    bound = math.exp((gammaln(shape) - math.log(2.0) - _LOG_ERROR) / shape)  # of epsilon**2 / (4 simple)
    smallest = 2.0 * math.sqrt(simple * bound)
    # Less than 1e-16 of the mixture is at smaller t, for epsilon from the smallest one on.
    least = simple * bound / float(gammainccinv(shape, math.exp(-_LOG_ERROR)))
    a = np.linspace(0.01, 1.56, 156)
    step = float((2.0 * math.pi * a / (_LOG_ERROR + math.log(2.0) - (n + 0.5) * np.log(np.cos(a)))).max())
    u = np.arange(math.log(least) - step, math.log(largest) + step, step)
    height = np.array([log_theta(math.exp(one)) for one in u])
    u, height = u[height > 0.0], height[height > 0.0]
    weights = math.log(0.5 * step / math.sqrt(math.pi)) - 0.5 * u + height + np.log(-np.expm1(-height))
    scale = 0.5 * (n - 1) * math.log(math.pi) + n * math.log(2.0) + float(gammaln(shape))
    return RadialSum(0.25 * np.exp(-u), weights, smallest, scale + from_volume(simple / 16.0), n)


def radial_log_sum(invariants: Invariants, epsilon: Any, xp: Any = np) -> Any | None:
    """Logarithm of the sum of ``exp(-epsilon ||z||_2)`` over the lattice; None where it is not computed."""
    if invariants.dimension <= 1:
        sums = l2_sums(invariants)
        if sums is None:
            return None
        lengths = [part.length for part in sums if isinstance(part, Multiples)]
        return added(xp, [log_coth(xp, 0.5 * epsilon * length) for length in lengths], epsilon)
    rule = radial_sum(invariants)
    return None if rule is None else rule.log_sum(epsilon, xp)


_NORMS = ("l1", "l2")

_REACH = 20_000
"""Counts from which the law of one cell is not worked out."""


@dataclass(frozen=True, eq=False)
class LatticeLaplace(LatticeLaw):
    r"""Noise with mass proportional to ``exp(-epsilon ||z||)`` on ``{z integer : A z = 0}``.

    Two tables x, x' with the same invariants are told apart with a loss of at most ``epsilon ||x - x'||``.

    ========  =====================================================================================
    Support   integer tables that change no invariant
    Mean      0
    Variance  in closed form for the l1 norm with disjoint totals, 2 x c tables and one free number
    ========  =====================================================================================

    Parameters
    ----------
    epsilon : float
        Rate per count (not the loss of one person: that is 2 epsilon for a substitution in l1).
    norm : {"l1", "l2"}, default "l1"

    Raises
    ------
    TypeError, ValueError
        If epsilon is not a positive finite number, or the norm is unknown.

    See Also
    --------
    bayesdp.distributions.LatticeLaplace : the same law as a PyMC distribution.
    bayesdp.LatticeLaplace : the mechanism that adds this noise; it takes privacy parameters.

    References
    ----------
    Dharangutte, Gao, Gong and Yu (2023), Integer Subspace Differential Privacy, Definition 9 and Algorithm 1.

    Examples
    --------
    >>> from bayesdp.queries import Totals
    >>> pair = Invariants(Totals({"county": ["Alpha", "Beta"]}))
    >>> law = LatticeLaplace(epsilon=0.5)
    >>> print(f"{law.logp([4, 6], [5, 5], pair):.6f}")  # -0.5 * 2 - log coth(0.5)
    -1.771937
    >>> law.logp([4, 7], [5, 5], pair)
    -inf
    """

    epsilon: float
    norm: str = "l1"

    name = "lattice-laplace"
    everywhere = True
    kernel_form = KernelForm("l1")
    scale_name = "epsilon"
    relation = "epsilon, the rate per count in mass ~ exp(-epsilon norm): 1 / b for a scale b; and norm, l1 or l2"

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", positive_rate(self.epsilon, "epsilon"))
        _validate.choice(self.norm, _NORMS, "norm")

    def log_kernel(self, xp: Any, measured: Any, scale: Any, invariants: Invariants) -> Any:
        """``-epsilon ||z||``; see `TableLaw.log_kernel`."""
        return -scale * norm_of(xp, measured, self.norm, invariants)

    def log_normaliser(self, invariants: Invariants) -> float | None:
        """Logarithm of the sum of ``exp(-epsilon ||z||)`` over the lattice, or None where it is not computed.

        For every epsilon where it is computed, to about 1e-14 of the sum. In the l1 norm, where each part of the
        lattice has a closed form (disjoint totals, free cells, 2 x c tables with both margins) or is small enough for
        its vectors to be counted up to the size from which the rest follows: 3 x c tables up to c = 6, 4 x 4 and 4 x 5
        tables, 2 x 3 x 2 tables with all one-way margins, a few overlapping totals (`bayesdp.lattices.sums.l1_series`). In the l2
        norm, as a mixture of Gaussian sums, wherever those are computed: see `LatticeGaussian.log_normaliser`.
        """
        return super().log_normaliser(invariants)

    def _log_sum(self, xp: Any, scale: Any, invariants: Invariants) -> Any | None:
        return (l1_log_sum if self.norm == "l1" else radial_log_sum)(invariants, scale, xp)

    def _rated(self) -> tuple[float, int, Callable[[float], LatticeLaw]]:
        return self.epsilon, 1, self.at

    def _sizes(self, invariants: Invariants, reach: float) -> tuple[Floats, Floats] | None:
        order = 1 if self.norm == "l1" else 2
        most = math.ceil(reach**order)
        tilt = self.epsilon if order == 1 else self.epsilon / max(reach, 1.0)
        masses = size_masses(invariants, order, tilt, most)
        whole = self.log_normaliser(invariants)
        if masses is None or whole is None:
            return None
        n = np.arange(masses.size, dtype=np.float64)
        sizes = n if order == 1 else np.sqrt(n)
        return sizes, masses * np.exp(tilt * n - self.epsilon * sizes - whole)

    def _cell_tail(self, t: float, invariants: Invariants, cell: int) -> tuple[float, float] | None:
        if self.norm != "l1":
            return None
        own = next((part for part in lattice_parts(invariants) if np.any(part.cells == cell)), None)
        if own is None or t <= 0.0:
            return (1.0, 1.0) if t <= 0.0 else (0.0, 0.0)
        if not (isinstance(own, Line) or (isinstance(own, Table) and len(own.shape) == 1)):
            return None
        entry = int(own.entries[own.cells == cell][0]) if isinstance(own, Line) else 1
        if not entry:
            return 0.0, 0.0
        # Beyond this the cell has less than exp(-60) of its mass at t: the mass falls by exp(-2 rate) a count or faster far out.
        reach = math.ceil(t + 80.0 / self.epsilon + 40.0 * math.sqrt(own.cells.size) / self.epsilon)
        if reach > _REACH:
            return None
        masses = cell_masses(own, entry, self.epsilon, reach)
        far = 2.0 * math.fsum(masses[math.ceil(t) :])
        found = far / (float(masses[0]) + 2.0 * math.fsum(masses[1:]))
        return found * (1.0 - 1e-11), min(1.0, found * (1.0 + 1e-11))

    def noise(self, rng: np.random.Generator, count: int, invariants: Invariants) -> Ints:
        """Draw noise; `bayesdp.lattices` chooses between exact sampling and a Gibbs chain, and says which."""
        return lattices.sample_noise(invariants, self.norm, self.epsilon, rng=rng, size=count)

    def variance(self, shape: tuple[int, ...], invariants: Invariants | None = None) -> Floats | None:
        """Variance of each cell, or None where no closed form is known (see `log_normaliser`)."""
        invariants = self.needed(invariants, shape)
        found = parts(invariants)
        if found is None or (self.norm == "l2" and invariants.dimension > 1):
            return None
        variance = np.zeros(invariants.frame.size)
        for part in found:
            if isinstance(part, Line):
                rate = self.epsilon * self._length(part)
                # Of a two-sided geometric law: 2 q / (1 - q)**2 = 1 / (2 sinh(rate / 2)**2).
                variance[part.cells] = part.entries**2 * (0.5 / math.sinh(min(0.5 * rate, 350.0)) ** 2)
            else:
                variance[part.cells] = laplace_variance(part.count, self.epsilon * part.copies)
        return variance.reshape(shape)

    def _length(self, part: Line) -> float:
        return float(np.linalg.norm(part.entries.astype(np.float64), ord=1 if self.norm == "l1" else 2))

    def sampler(self, invariants: Invariants) -> Sampler:
        """How noise is drawn under these invariants, before any is."""
        return sampler_for(invariants, self.norm, self.epsilon)

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`."""
        return LossByLength(("pure",), self.norm, exponential_loss(self.epsilon))

    def kernel_of(self, invariants: Invariants | None) -> KernelForm | None:
        """The form of its norm. See `NoiseLaw.kernel_of`."""
        return KernelForm(self.norm)
