"""The Laplace law whose values are moved to the nearer bound where they are outside of public bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.noise._arrays import positive_scale
from bayesdp.noise.base import Floats
from bayesdp.noise.bounded._kernels import FILLS
from bayesdp.noise.bounded.base import BoundedLaw, Moments, checked_bounds
from bayesdp.noise.bounded.truncated_laplace import _grow

__all__ = ["BoundaryInflatedLaplace"]


@dataclass(frozen=True, eq=False)
class BoundaryInflatedLaplace(BoundedLaw):
    r"""Laplace values around mu, clipped to bounds (c0, c1): an atom at each finite bound (BIT).

    The probabilities of the atoms are ``exp(-(mu - c0)/b) / 2`` and ``exp(-(c1 - mu)/b) / 2`` for locations within the
    bounds; Equation (5) of the paper misprints the upper one as 1 minus that. Between them the density is that of
    Laplace noise. Densities refer to Lebesgue measure plus a unit point mass at each finite bound: the log-density at a
    bound is the log-probability of its atom.

    ========  ========================================================
    Support   the interval between the bounds, bounds included
    Mean      ``mu + b/2 (exp(-(mu - c0)/b) - exp(-(c1 - mu)/b))``
    Variance  below ``2 b**2``
    ========  ========================================================

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
    bayesdp.BoundaryInflatedLaplace : the mechanism; it takes privacy parameters.
    bayesdp.distributions.BoundaryInflatedLaplace : the same law as a PyMC distribution.

    References
    ----------
    Liu (2019), Definition 2(b), Propositions 1 and 2.

    Examples
    --------
    >>> law = BoundaryInflatedLaplace(b=1.0, bounds=(0.0, 1.0))
    >>> print(f"{law.bias(0.3):.12f} {law.variance((), location=0.3):.12f}")
    0.122116458445 0.177828867245
    """

    b: float | Floats
    bounds: Any

    name = "boundary-inflated-laplace"
    integer = False
    has_atoms = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "b", positive_scale(self.b, "b"))
        object.__setattr__(self, "bounds", checked_bounds(self.bounds, integer=False))

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density between the bounds, log-probability at a bound, ``-inf`` outside; elementwise."""
        return self._log_each(values, location)

    def atoms(self, location: npt.ArrayLike = 0.0) -> tuple[Floats, Floats]:
        """Probabilities of the lower and of the upper bound; 0 for one that is infinite."""
        _, mu, scale, lower, upper = self._prepared(location, location)
        return np.exp(_log_below((lower - mu) / scale)), np.exp(_log_below((mu - upper) / scale))

    def _log_prob(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        inner = -np.abs(y - mu) / scale - np.log(2.0 * scale)
        below, above = _log_below((lower - mu) / scale), _log_below((mu - upper) / scale)
        return np.where(y == lower, below, np.where(y == upper, above, inner))

    def _log_tails(self, y: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        return _log_below((y - mu) / scale), _log_below((mu - y) / scale)

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near = np.clip(mu, lower, upper)
        below, above = (near - lower) / scale, (upper - near) / scale
        # How likely values are to be on either side of `near`: one half each, unless it is a bound that mu is beyond.
        down, up = np.exp(_log_below((near - mu) / scale)), np.exp(_log_below((mu - near) / scale))
        first = scale * (up * _grow(1, above) - down * _grow(1, below))
        return near, first, 2.0 * scale**2 * (up * _grow(2, above) + down * _grow(2, below))

    def _quantile(self, q: Floats, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.where(q < 0.5, mu + scale * np.log(2.0 * q), mu - scale * np.log(2.0 * (1.0 - q)))

    def _fill(self, rng: Any, mu: Floats, scale: Floats, lower: Floats, upper: Floats, out: Any) -> None:
        FILLS[self.name](rng, mu, scale, lower, upper, out)


def _log_below(x: Floats) -> Floats:
    """Logarithm of the probability that Laplace noise of scale 1 is at most x."""
    return np.where(x < 0.0, np.minimum(x, 0.0) - np.log(2.0), np.log1p(-0.5 * np.exp(-np.maximum(x, 0.0))))
