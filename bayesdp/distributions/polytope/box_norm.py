"""Noise of a whole vector that falls with its largest entry, as a PyMC distribution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob
from pytensor.link.numba.dispatch.basic import numba_njit
from pytensor.link.numba.dispatch.random import numba_core_rv_funcify
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.random.variable import shared_rng

from bayesdp import noise
from bayesdp.distributions.parameters import location, scale
from bayesdp.distributions.registry import register_distribution

__all__ = ["BoxNorm"]


class BoxNormRV(RandomVariable):
    """Random variable of `BoxNorm`; its inputs are a location and a scale for each entry."""

    name = "box_norm"
    signature = "(k),(k)->(k)"
    dtype = "float64"
    _print_name = ("BoxNorm", r"\operatorname{BoxNorm}")
    law_type = noise.BoxNorm

    def rng_fn(self, rng: np.random.Generator, mu: Any, b: Any, size: Sequence[int] | None = None) -> Any:
        """Draw a vector around each location of the batch, each with a radius of its own."""
        centre, spread = np.broadcast_arrays(np.asarray(mu, dtype=np.float64), np.asarray(b, dtype=np.float64))
        shape = centre.shape if size is None else (*size, centre.shape[-1])
        radius = rng.standard_gamma(shape[-1] + 1.0, (*shape[:-1], 1))
        return centre + spread * radius * rng.uniform(-1.0, 1.0, shape)


@numba_core_rv_funcify.register(BoxNormRV)
def _core(op: BoxNormRV, node: Any) -> tuple[Any, None]:
    """One vector in compiled code; None keeps PyTensor from storing a function under a name that other Ops have."""

    @numba_njit
    def random(rng, mu, b):  # type: ignore[no-untyped-def]  # compiled for the types it meets
        radius = rng.standard_gamma(len(mu) + 1.0)
        out = np.empty(len(mu))
        for i in range(len(mu)):
            out[i] = mu[i] + b[i] * radius * (2.0 * rng.random() - 1.0)
        return out

    return random, None


@_logprob.register(BoxNormRV)
def _logp(op: BoxNormRV, values: Any, rng: Any, size: Any, mu: Any, b: Any, **_: Any) -> Any:
    [value] = values
    return check_parameters(noise.BoxNorm.log_kernel(pt, value, mu, b), b > 0, msg="b > 0")


class BoxNorm(pm.Continuous):
    r"""Vectors around mu with density ``exp(-max_i |y_i - mu_i| / b_i) / (d! prod_i 2 b_i)``.

    ========  ==========================================================
    Support   real vectors
    Mean      mu
    Variance  ``b_i**2 (d + 1) (d + 2) / 3``, d the number of entries
    ========  ==========================================================

    Parameters
    ----------
    mu : tensor_like of float, shape (..., d)
        What the noise was added to.
    b : tensor_like of float, shape () or (d,)
        Scales (b > 0).

    See Also
    --------
    bayesdp.noise.BoxNorm : the same law without PyMC.
    bayesdp.mechanisms.JointCovariance : the mechanism; it takes privacy parameters.

    Examples
    --------
    >>> with pm.Model():
    ...     variances = pm.HalfNormal("variances", shape=2)
    ...     noisy = BoxNorm("noisy", mu=variances, b=0.1, observed=[0.4, 1.3])
    """

    rv_type = BoxNormRV

    @classmethod
    def rv_op(cls, mu: Any, b: Any, *, size: Any = None, rng: Any = None) -> Any:
        """Apply the random variable."""
        own = shared_rng(seed=None) if rng is None else rng
        _, variable = BoxNormRV()(mu, b, size=size, rng=own, return_next_rng=True)
        return variable

    @classmethod
    def dist(cls, mu: Any, b: Any, **kwargs: Any) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        centre, spread = pt.broadcast_arrays(pt.cast(location(mu), "float64"), scale(b, "b"))
        return super().dist([centre, spread], **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, b: Any) -> Any:  # PyMC passes the variable
        """The location."""
        return pt.zeros_like(rv) + mu


register_distribution(noise.BoxNorm, BoxNorm)
