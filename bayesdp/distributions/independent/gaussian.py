"""The Gaussian law as a PyMC distribution of noise."""

from __future__ import annotations

import math
from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pytensor.tensor.random.basic import NormalRV

from bayesdp.distributions._parameters import location, scale

__all__ = ["Gaussian"]


class GaussianRV(NormalRV):
    """Random variable of `Gaussian`: PyTensor's normal, with a type of its own by which the steps for counts know it."""

    _print_name = ("Gaussian", r"\operatorname{Gaussian}")


class Gaussian(pm.Continuous):
    r"""Real numbers with density ``exp(-(x - mu)**2 / (2 sigma**2)) / (sigma sqrt(2 pi))``: the Gaussian mechanism.

    The same law as `pymc.Normal`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
    one of the laws with exact conditional steps.

    ========  ======================
    Support   real numbers
    Mean      mu
    Variance  ``sigma**2``
    ========  ======================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to.
    sigma : tensor_like of float
        Standard deviation in counts (sigma > 0).

    See Also
    --------
    bayesdp.noise.Gaussian : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Gaussian("noisy", mu=level, sigma=4.0, observed=[7.3, 12.9])
    """

    rv_op = GaussianRV()

    @classmethod
    def dist(cls, mu: Any, sigma: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        return super().dist([location(mu), scale(sigma, "sigma")], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the variable here
        """Location, where the density is highest."""
        return pm.Normal.support_point(rv, size, pt.cast(mu, "float64"), sigma)

    def logp(value: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the value here
        """Log-density."""
        density = -0.5 * ((value - mu) / sigma) ** 2 - pt.log(sigma) - 0.5 * math.log(2.0 * math.pi)
        return check_parameters(density, sigma > 0, msg="sigma > 0")

    def logcdf(value: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        # PyMC's own takes the root of 2 in single precision, and is good to 2e-7.
        z = (value - mu) / (sigma * math.sqrt(2.0))
        far = z < -1.0
        below = pt.log(0.5 * pt.erfcx(-pt.switch(far, z, -1.0))) - z**2
        return check_parameters(pt.switch(far, below, pt.log1p(-0.5 * pt.erfc(z))), sigma > 0, msg="sigma > 0")
