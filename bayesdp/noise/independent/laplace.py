"""The Laplace law on the real line, around any location."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayesdp.invariants import Invariants
from bayesdp.noise import kernels
from bayesdp.noise._verbs import KernelForm, LossByLength, exponential_loss
from bayesdp.noise.base import Floats
from bayesdp.noise.independent.scaled import LAPLACE, RealLaw, StatedByEpsilon
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import LaplaceTradeOff
from bayesdp.queries import Query


@dataclass(frozen=True, eq=False, init=False)
class Laplace(StatedByEpsilon, RealLaw):
    r"""Independent real noise with density ``exp(-|y - mu| / b) / (2 b)``: the Laplace mechanism of textbooks.

    For published numbers with decimals. Noise that was rounded to whole numbers, or drawn as such, is `DiscreteLaplace`; noise
    that changes no exact total is `ProjectedLaplace`. No mechanism of this package adds it: drawn with floating-point numbers
    it gives away more than its epsilon says (Mironov 2012).

    ========  ==============
    Support   real numbers
    Mean      mu
    Variance  ``2 b**2``
    ========  ==============

    Parameters
    ----------
    b : float or array_like
        Scale in counts. An array has one scale per cell of the query, or a shape that broadcasts to it.
    epsilon, sensitivity : float or array_like
        In place of b: the privacy loss, and the largest l1 change of the answers that it is for. ``b = sensitivity / epsilon``.
    variance, standard_deviation : float or array_like
        In place of b, either: of the noise.

    Raises
    ------
    TypeError, ValueError
        If the scale is not a positive finite number below 2**46, or is not stated in one of these ways.

    See Also
    --------
    bayesdp.distributions.Laplace : the same law as a PyMC distribution.

    References
    ----------
    Dwork, McSherry, Nissim and Smith (2006), Calibrating Noise to Sensitivity in Private Data Analysis.

    Examples
    --------
    >>> law = Laplace(epsilon=0.5, sensitivity=2.0)
    >>> law
    Laplace(b=4.0)
    >>> print(f"{law.logp([3.5, -1.25], [0, 0]):.6f}")  # -4.75 / 4 - 2 log 8
    -5.346383
    >>> law.draw(np.random.default_rng(1), shape=(3,)).shape
    (3,)
    """

    b: float | Floats

    name = "laplace"
    ways = LAPLACE
    kernel_form = KernelForm("l1", of_scale=True)
    draw_one = staticmethod(kernels.laplace)

    @staticmethod
    def _standard_log_density(xp: Any, z: Any) -> Any:
        return -xp.abs(z) - math.log(2.0)

    @staticmethod
    def _standard_log_cdf(xp: Any, z: Any) -> Any:
        tail = -xp.abs(z) - math.log(2.0)
        return xp.where(z <= 0.0, tail, xp.log1p(-xp.exp(tail)))

    @staticmethod
    def _standard_draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        return np.asarray(rng.laplace(size=shape))

    @staticmethod
    def _moments(mu: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Mean and variance around mu."""
        return mu, 2.0 * scale**2

    def pair_loss(self, query: Query, invariants: Invariants) -> LossByLength | None:
        """The loss at a length. See `NoiseLaw.pair_loss`; not known here where each answer has a scale of its own."""
        return None if np.ndim(self.b) else LossByLength(("pure",), "l1", exponential_loss(1.0 / float(self.b)))

    def moved(self, by: float) -> TradeOff | None:
        """See `NoiseLaw.moved`; not known where each answer has a scale of its own."""
        return None if np.ndim(self.b) else LaplaceTradeOff(by / float(self.b))
