"""Shares of noisy proportions as a PyMC distribution, and their log-density as a term of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp import noise
from bayesdp._validate import choice
from bayesdp.distributions.parameters import PROPS, PythonRV, applied, location, scale
from bayesdp.distributions.registry import register_distribution
from bayesdp.noise.bounded.rescaled_laplace import EVEN, RULES, proportions


class RescaledLaplaceRV(PythonRV):
    """Random variable of `RescaledLaplace`; its inputs are the proportions and a scale for each category, and it holds the rule."""

    name, signature, dtype = "rescaled_laplace", "(k),(k)->(k)", "float64"
    __props__ = (*PROPS, "rule")
    rule: str
    law_type = noise.RescaledLaplace

    def rng_fn(self, rng: np.random.Generator, mu: Any, b: Any, size: Sequence[int] | None = None) -> Any:
        """Draw shares for each vector of proportions of the batch."""
        centre, spread = np.broadcast_arrays(np.asarray(mu, dtype=np.float64), np.asarray(b, dtype=np.float64))
        shape = centre.shape if size is None else (*size, centre.shape[-1])
        law = noise.RescaledLaplace(np.broadcast_to(spread, shape), self.rule)
        return law.draw(rng, shape, location=centre)


@_logprob.register(RescaledLaplaceRV)
def _logp(op: RescaledLaplaceRV, values: Any, rng: Any, size: Any, mu: Any, b: Any, **_: Any) -> Any:
    [value] = values
    valid = pt.all(value >= 0.0, axis=-1) & (pt.abs(pt.sum(value, axis=-1) - 1.0) < EVEN)
    shares = pt.where(valid[..., None], value, 1.0 / value.shape[-1])
    found = pt.where(valid, noise.RescaledLaplace.log_kernel(pt, shares, mu, b, op.rule), -np.inf)
    return check_parameters(found, b > 0, msg="b > 0")


class RescaledLaplace(pm.Continuous):
    r"""Shares ``y / sum(y)`` of Laplace values y around the proportions mu, kept within 0 and 1.

    Give it ``observed`` values: clipping puts mass on faces of the simplex, onto which gradient-based steps cannot move a
    free variable. With respect to mu the log-density has the right gradient.

    ========  ==========================================================================
    Support   vectors of shares of at least 0 that add up to 1
    Density   an integral over the sum of the values, see `bayesdp.noise.RescaledLaplace`
    ========  ==========================================================================

    Parameters
    ----------
    mu : tensor_like of float, shape (..., categories)
        The confidential proportions, for example counts divided by n.
    b : tensor_like of float, shape () or (categories,)
        Scale of the noise before the division (b > 0).
    rule : {"boundary-inflated", "truncated"}
        How the noisy values are kept between 0 and 1.

    See Also
    --------
    bayesdp.noise.RescaledLaplace : the same law without PyMC.
    bayesdp.mechanisms.RescaledProportions : the mechanism; it takes privacy parameters.

    References
    ----------
    Liu (2019), Section 4.2; the law is derived in `bayesdp.noise.RescaledLaplace`.

    Examples
    --------
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     shares = RescaledLaplace("shares", mu=p, b=0.1, observed=[0.0, 0.4, 0.6])
    """

    rv_type = RescaledLaplaceRV

    @classmethod
    def rv_op(cls, mu: Any, b: Any, *, rule: str, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable of this rule."""
        return applied(RescaledLaplaceRV(rule=rule), mu, b, size=size, rng=rng)

    @classmethod
    def dist(cls, mu: Any, b: Any, rule: str = "boundary-inflated", **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        choice(rule, RULES, "rule")
        centre, spread = pt.broadcast_arrays(pt.cast(location(mu), "float64"), scale(b, "b"))
        return super().dist([centre, spread], rule=rule, **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """Equal shares, which every law can give."""
        return pt.zeros_like(rv) + 1.0 / mu.shape[-1]


register_distribution(noise.RescaledLaplace, RescaledLaplace)


def rescaled_logp(law: noise.RescaledLaplace, shares: npt.ArrayLike, mu: Any) -> Any:
    """Log-density of published shares given confidential proportions, for `pymc.Potential`.

    A release needs none of this: `bayesdp.observe` adds it.

    Parameters
    ----------
    law : bayesdp.noise.RescaledLaplace
    shares : array_like, shape (categories,)
        Published: numbers. They decide on which face of the simplex the density is.
    mu : tensor, shape (categories,)
        Confidential proportions, for example counts divided by n.

    Returns
    -------
    tensor, scalar
        See `bayesdp.noise.RescaledLaplace`, whose `log_kernel` it is.

    Examples
    --------
    >>> law = noise.RescaledLaplace(0.1, "boundary-inflated")
    >>> with pm.Model():
    ...     p = pm.Dirichlet("p", np.ones(3))
    ...     shares = pm.Potential("shares", rescaled_logp(law, [0.0, 0.4, 0.6], p))
    """
    r = proportions(shares, "shares")
    if r.ndim != 1 or not np.isfinite(law.log_density(r, r)):
        raise ValueError(
            f"shares must be a vector that the law can give, at least 0 and adding up to 1, got {shares!r}"
        )
    return law.log_kernel(pt, pt.constant(r), pt.as_tensor_variable(mu), law.b, law.rule)
