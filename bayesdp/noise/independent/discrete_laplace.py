"""The discrete Laplace law on the integers, around any real location."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise import kernels
from bayesdp.noise._verbs import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import DISCRETE_LAPLACE, IntegerLaw, StatedByEpsilon, moved_discrete_laplace
from bayesdp.noise.namespace import log1mexp, softplus, whole
from bayesdp.noise.secure import laplace_by_integers
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False, init=False)
class DiscreteLaplace(StatedByEpsilon, IntegerLaw):
    r"""Independent integer noise with mass proportional to ``exp(-|k - mu| / b)``.

    With ``q = exp(-1/b)`` and ``f = mu - floor(mu)`` the normaliser is ``(q**f + q**(1-f)) / (1 - q)``; at an
    integer mu that is ``(1 + q) / (1 - q)``, the two-sided geometric law.

    ========  ==============================================
    Support   the integers
    Mean      mu for integers and half-integers, near it else
    Variance  ``2 q / (1 - q)**2`` around an integer
    ========  ==============================================

    Parameters
    ----------
    b : float or array_like
        Scale in counts: a change of one count costs ``epsilon = 1/b``. An array has one scale per cell of the
        query, or a shape that broadcasts to it.
    epsilon, sensitivity : float or array_like
        In place of b: the privacy loss, and the largest l1 change of the answers that it is for. ``b = sensitivity / epsilon``.
    variance, standard_deviation : float or array_like
        In place of b, either: of the noise around a whole number.

    Raises
    ------
    TypeError, ValueError
        If the scale is not a positive finite number below 2**46, or is not stated in one of these ways.

    See Also
    --------
    bayesdp.distributions.DiscreteLaplace : the same law as a PyMC distribution.

    References
    ----------
    Ghosh, Roughgarden and Sundararajan (2009); Inusah and Kozubowski (2006) for the law.

    Examples
    --------
    >>> law = DiscreteLaplace(b=4.0)
    >>> print(f"{law.logp([3, -1], [0, 0]):.6f}")
    -5.169262
    >>> law.draw(np.random.default_rng(1), shape=(3,)).dtype
    dtype('int64')
    """

    b: float | Floats

    name = "discrete-laplace"
    ways = DISCRETE_LAPLACE
    kernel_form = KernelForm("l1", of_scale=True)
    draw_one = staticmethod(kernels.discrete_laplace)
    fill = staticmethod(kernels.fill_discrete_laplace)

    @classmethod
    def log_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Log-mass at integers."""
        # Relative to the mass of the nearest integer, so that nothing underflows for small b.
        nearest = 0.0 if whole(mu) else xp.abs(xp.round(mu) - mu)
        mass = -(xp.abs(value - mu) - nearest) / scale + xp.log(-xp.expm1(-1.0 / scale))
        return mass - xp.log1p(xp.exp(-(1.0 - 2.0 * nearest) / scale))

    @classmethod
    def log_cdf_kernel(cls, xp: Any, value: Any, mu: Any, scale: Any) -> Any:
        """Logarithm of the probability of at most `value`, an integer."""
        base = xp.floor(mu)
        # With f = mu - floor(mu), P(K <= k) = q**(mu - k) / (q**f + q**(1 - f)) up to floor(mu); above, it is 1
        # minus the mirror image.
        below = value <= base
        distance = xp.where(below, mu - value, value + 1.0 - mu)
        own = xp.where(below, mu - base, base + 1.0 - mu)  # distance of the nearest integer on that side
        tail = -(distance - own) / scale - softplus(xp, (2.0 * own - 1.0) / scale)
        return xp.where(below, tail, log1mexp(xp, xp.where(below, -1.0, tail)))

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""
        near = np.rint(mu)
        sign = np.where(mu >= near, 1.0, -1.0)
        f = np.abs(mu - near)  # by symmetry only 0 <= f <= 1/2 is needed; counting away from the nearest integer
        # Mean of the steps beyond the first integer of a side.
        geometric = 1.0 / np.expm1(np.minimum(1.0 / scale, 700.0))
        above = 1.0 / (1.0 + np.exp(np.minimum((1.0 - 2.0 * f) / scale, 700.0)))
        mean = above + geometric * np.tanh((2.0 * f - 1.0) / (2.0 * scale))
        square = geometric * (2.0 * geometric + 1.0) + above * (1.0 + 2.0 * geometric)
        return near + sign * mean, square - mean**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`; not known here where each answer has a scale of its own."""
        return None if np.ndim(self.b) else LossByLength(("pure",), "l1", exponential_loss(1.0 / float(self.b)))

    def moved(self, by: float) -> TradeOff | None:
        """See `NoiseLaw.moved`; not known where each answer has a scale of its own."""
        return None if np.ndim(self.b) else moved_discrete_laplace(1.0 / float(self.b), int(by))

    def draw_by_integers(self, size: int, engine: str) -> list[int]:
        """Draw noise of one scale with integer arithmetic only. See `NoiseLaw.draw_by_integers`."""
        return laplace_by_integers(float(self.b), size, engine)
