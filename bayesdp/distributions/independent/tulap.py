"""Tulap noise as a PyMC distribution."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters

from bayesdp import noise
from bayesdp.distributions.independent.scalar import scalar_distribution

__all__ = ["Tulap", "TulapRV"]


@scalar_distribution(noise.Tulap)
class Tulap(pm.Continuous):
    r"""Truncated uniform-Laplace noise around mu, canonical for (epsilon, delta)-differential privacy.

    .. math:: f(x \mid \mu, \epsilon, \delta) = \frac{1 - b + 2 \delta b}{1 + b}\; b^{[x - \mu]}
        \qquad b = e^{-\epsilon}, \; [z] = \text{the integer nearest to } |z|

    where delta has not cut the tail off. The density is a step function: it jumps at half-integer distances from mu and is flat
    between them, so that its gradient says nothing about mu. NUTS remains valid (it accepts by the density itself) but moves
    blindly through this term; `pm.Slice` is the better sampler for what is in mu. Counts (`ConfidentialCounts`) move by exact
    conditional steps, and with known epsilon and delta never out of reach.

    With delta > 0 the density is zero far from mu, so that a start of mu out of reach of the data is refused by PyMC; give one
    within reach with ``pm.sample(initvals=...)``. `bayesdp.observe` needs none.

    ========  ==========================================================================
    Support   real numbers; if delta > 0, those within a bounded distance of mu
    Mean      mu
    Variance  ``2 b / (1 - b)**2 + 1/12`` for delta = 0
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to, for a statistic of sensitivity 1.
    epsilon : tensor_like of float
        Privacy loss (epsilon > 0).
    delta : tensor_like of float, default 0
        (0 <= delta < 1).

    See Also
    --------
    bayesdp.noise.Tulap : the same law without PyMC, for releases.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     level = pm.Normal("level", 10.0, 5.0)
    ...     noisy = Tulap("noisy", mu=level, epsilon=1.0, observed=12.3)
    """

    def logp(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Log-density; ``-inf`` beyond the ends."""
        return _checked(noise.Tulap.log_kernel(pt, value, mu, epsilon, delta), epsilon, delta)

    def logcdf(value: Any, mu: Any, epsilon: Any, delta: Any) -> Any:  # PyMC passes the value here
        """Logarithm of the probability of at most `value`."""
        return _checked(noise.Tulap.log_cdf_kernel(pt, value, mu, epsilon, delta), epsilon, delta)


TulapRV: Any = Tulap.rv_type


def _checked(found: Any, epsilon: Any, delta: Any) -> Any:
    return check_parameters(found, epsilon > 0, delta >= 0, delta < 1, msg="epsilon > 0, 0 <= delta < 1")
