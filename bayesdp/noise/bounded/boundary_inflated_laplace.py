"""The Laplace law whose values are moved to the nearer bound where they are outside of public bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bayesdp.noise.base import Floats
from bayesdp.noise.bounded import kernels
from bayesdp.noise.bounded.base import Moments
from bayesdp.noise.bounded.boundary_inflated import BoundaryInflated
from bayesdp.noise.bounded.truncated_laplace import grow, sides
from bayesdp.noise.independent.laplace import Laplace


@dataclass(frozen=True, eq=False)
class BoundaryInflatedLaplace(BoundaryInflated):
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
    free = Laplace
    draw_one = staticmethod(kernels.boundary_inflated_laplace)

    def log_density(self, values: npt.ArrayLike, location: npt.ArrayLike = 0.0) -> Floats:
        """Log-density between the bounds, log-probability at a bound, ``-inf`` outside; elementwise."""
        return self.log_each(values, location)

    @classmethod
    def icdf_kernel(cls, xp: Any, q: Any, mu: Any, scale: Any, lower: Any, upper: Any) -> Any:
        """Quantiles of the free law, which may be outside of the bounds."""
        low = q < 0.5
        down, up = xp.where(low, q, 0.25), xp.where(low, 0.25, 1.0 - q)
        return xp.where(low, mu + scale * xp.log(2.0 * down), mu - scale * xp.log(2.0 * up))

    def _moments(self, mu: Floats, scale: Floats, lower: Floats, upper: Floats) -> Moments:
        near, below, above = sides(mu, scale, lower, upper)
        # How likely values are to be on either side of `near`: one half each, unless it is a bound that mu is beyond.
        down, up = (
            np.exp(Laplace.log_cdf_kernel(np, near, mu, scale)),
            np.exp(Laplace.log_cdf_kernel(np, -near, -mu, scale)),
        )
        first = scale * (up * grow(1, above) - down * grow(1, below))
        return near, first, 2.0 * scale**2 * (up * grow(2, above) + down * grow(2, below))
