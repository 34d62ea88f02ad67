"""What papers publish, in PyMC models: shares of noisy proportions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp._validate import choice
from bayesdp.distributions.registry import PROPS, PythonRV, applied, location, register_distribution, scale
from bayesdp.papers import bounded_statistics
from bayesdp.papers.bounded_statistics import RULES

__all__ = ["RescaledLaplace"]


class RescaledLaplaceRV(PythonRV):
    """Random variable of `RescaledLaplace`, which holds the rule."""

    name = "rescaled_laplace"
    signature = "(k),(k)->(k)"
    dtype = "float64"
    __props__ = (*PROPS, "rule")
    rule: str
    law_type = bounded_statistics.RescaledLaplace

    def rng_fn(self, rng: np.random.Generator, mu: Any, b: Any, size: Sequence[int] | None = None) -> Any:
        """Draw shares for each vector of proportions of the batch."""
        centre, spread = np.broadcast_arrays(np.asarray(mu, dtype=np.float64), np.asarray(b, dtype=np.float64))
        shape = centre.shape if size is None else (*size, centre.shape[-1])
        return self.law_type(np.broadcast_to(spread, shape), self.rule).draw(rng, shape, location=centre)


@_logprob.register(RescaledLaplaceRV)
def _logp(op: Any, values: Any, rng: Any, size: Any, mu: Any, b: Any, **_: Any) -> Any:
    return check_parameters(op.law_type._log_density(pt, values[0], mu, b, op.rule), b > 0, msg="b > 0")


class RescaledLaplace(pm.Continuous):
    r"""Shares ``y / sum(y)`` of Laplace values y around the proportions mu, kept within 0 and 1.

    Give it ``observed`` values: clipping puts mass on faces of the simplex, onto which gradient-based steps cannot move a
    free variable. With respect to mu the log-density has the right gradient.

    Parameters
    ----------
    mu : tensor_like of float, shape (..., categories)
        The confidential proportions, for example counts divided by n.
    b, rule : tensor_like of float, shape () or (categories,); {"boundary-inflated", "truncated"}
        Scale of the noise before the division (b > 0), and how the noisy values are kept between 0 and 1.

    See Also
    --------
    bayesdp.papers.bounded_statistics.RescaledLaplace : the same law without PyMC, with its formula.
    bayesdp.papers.bounded_statistics.RescaledProportions : the mechanism; it takes privacy parameters.

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
        inputs = pt.broadcast_arrays(pt.cast(location(mu), "float64"), scale(b, "b"))
        return super().dist(list(inputs), rule=choice(rule, RULES, "rule"), **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """Equal shares, which every law can give."""
        return pt.zeros_like(rv) + 1.0 / mu.shape[-1]


register_distribution(bounded_statistics.RescaledLaplace, RescaledLaplace)
