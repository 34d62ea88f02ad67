"""The Laplace law given that it stays within public bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import gammainc

from bayesdp.noise._arrays import positive_scale
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded._kernels import FILLS
from bayesdp.noise.bounded.base import BoundedLaw, Moments, checked_bounds

__all__ = ["TruncatedLaplace"]


@dataclass(frozen=True, eq=False)
class TruncatedLaplace(BoundedLaw):
    r"""Independent real values around mu with density proportional to ``exp(-|y - mu| / b)`` within bounds (c0, c1).

    The normaliser, ``b (2 - exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``, depends on the location: it belongs in every
    likelihood. A location outside the bounds gives the same law as the nearer bound.

    ========  =========================================================================================
    Support   the interval between the bounds, of which one may be infinite
    Mean      mu plus a bias towards the middle of the interval (Equations 6, 9 and 10)
    Variance  below ``2 b**2``; no more than that of a uniform law where b is large
    ========  =========================================================================================

    Parameters
    ----------
    b : float or array_like
        Scale, in the unit of the values.
    bounds : pair of float or array_like
        Lower and upper bound; None or an infinity where there is none, on one side at most.

    Raises
    ------
    TypeError, ValueError
        If b is not positive and finite, or the bounds are reversed, equal or both infinite.

    See Also
    --------
    bayesdp.TruncatedLaplace : the mechanism; it takes privacy parameters.
    bayesdp.distributions.TruncatedLaplace : the same law as a PyMC distribution.

    References
    ----------
    Liu (2019), Statistical Properties of Sanitized Results from Differentially Private Laplace Mechanism with Univariate
    Bounding Constraints, Definition 2(a), Propositions 1 and 2.

    Examples
    --------
    >>> law = TruncatedLaplace(b=1.0, bounds=(0.0, 1.0))
    >>> print(f"{law.bias(0.3):.6f} {law.mse(0.3):.6f}")
    0.155874 0.098980
    """

    b: float | Floats
    bounds: Any

    name = "truncated-laplace"
    integer = False
    has_atoms = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds, integer=False))

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density of each value, elementwise; ``-inf`` outside the bounds."""
        return self._log_each(values, location)

    def _log_prob(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        near, below, above = _sides(mu, scale, lower, upper)
        return -np.abs(y - near) / scale - np.log(scale) - np.log(_grow(1, below) + _grow(1, above))

    def _log_tails(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        near, below, above = _sides(mu, scale, lower, upper)
        total = np.log(_grow(1, below) + _grow(1, above))
        with np.errstate(divide="ignore"):
            left = -np.maximum(near - y, 0.0) / scale + np.log(_grow(1, (np.minimum(y, near) - lower) / scale)) - total
            right = -np.maximum(y - near, 0.0) / scale + np.log(_grow(1, (upper - np.maximum(y, near)) / scale)) - total
            low = y <= near
            return (
                np.where(low, left, np.log1p(-np.exp(np.where(low, -1.0, right)))),
                np.where(low, np.log1p(-np.exp(np.minimum(np.where(low, left, -1.0), 0.0))), right),
            )

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        # Incomplete gamma functions keep all digits of what the formulas of Propositions 1 and 2 take differences of.
        near, below, above = _sides(mu, scale, lower, upper)
        total = _grow(1, below) + _grow(1, above)
        first = scale * (_grow(2, above) - _grow(2, below)) / total
        return near, first, 2.0 * scale**2 * (_grow(3, above) + _grow(3, below)) / total

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        near, below, above = _sides(mu, scale, lower, upper)
        left = _grow(1, below)
        share = q * (left + _grow(1, above))
        inner = np.clip(share - left, -0.9, 0.0)
        # 1 - left = exp(-below), which is added where subtracting from 1 would lose it.
        down = np.where(below > 1.0, np.log(np.minimum(share + np.exp(-below), 1.0)), np.log1p(inner))
        up = np.log1p(-np.clip(share - left, 0.0, np.nextafter(1.0, 0.0)))
        return np.where(share <= left, near + scale * down, near - scale * up)

    def _fill(self, rng: Any, mu: Floats, scale: Floats, lower: Floats, upper: Floats, out: Any) -> None:
        FILLS[self.name](rng, mu, scale, lower, upper, out)


def _sides(mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats, Floats]:
    """The location moved within the bounds, and its distances from them in scales."""
    near = np.clip(mu, lower, upper)
    return near, (near - lower) / scale, (upper - near) / scale


def _grow(order: int, x: Floats) -> Floats:
    """Integral of ``t**(order-1) exp(-t) / (order-1)!`` from 0 to x."""
    return np.asarray(-np.expm1(-x) if order == 1 else gammainc(float(order), x))
