"""Gaussian laws within bounds as PyMC distributions: truncated, and with atoms at the bounds.

Sums of a Gaussian over the integers of an interval, with derivatives, for PyTensor.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import BoundedContinuous
from pytensor.gradient import DisconnectedType, grad_not_implemented
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from pytensor.link.numba.dispatch.basic import register_funcify_default_op_cache_key

from bayesdp import noise
from bayesdp._numba import nb as numba
from bayesdp.distributions.bounded.base import bounded_distribution
from bayesdp.noise.bounded import kernels

__all__ = ["gaussian_sums"]

# PyTensor keeps compiled functions on disk: one compiled from other sums must not be found again.
_VERSION = zlib.crc32("".join(Path(own).read_text(encoding="utf-8") for own in (kernels.__file__, __file__)).encode())


class GaussianSumsOp(Op):
    """Sum of Gaussian masses over the integers of intervals, with its derivatives; see `gaussian_sums`.

    Vectors mu, sigma, lower, upper in; logarithm of the sum in units of the mass of m, its derivatives with respect to mu
    and sigma for fixed m, and m out.
    """

    __props__ = ()

    def make_node(self, *inputs: Any) -> Apply[Any]:
        vectors = [pt.as_tensor_variable(variable) for variable in inputs]
        return Apply(self, vectors, [pt.vector(dtype="float64") for _ in range(4)])

    def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
        found = _sums(*[np.ascontiguousarray(array, dtype=np.float64) for array in inputs])
        for storage, array in zip(outputs, found, strict=True):
            storage[0] = array

    def infer_shape(self, node: Any, shapes: Any) -> Any:
        return [shapes[0]] * 4

    def connection_pattern(self, node: Any) -> list[list[bool]]:
        return [[True, True, True, False], [True, True, True, False], [False] * 4, [False] * 4]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        if any(not isinstance(c.type, DisconnectedType) for c in cotangents[1:3]):
            found = [grad_not_implemented(self, i, inputs[i], "second derivatives are not available") for i in (0, 1)]
        else:
            found = [cotangents[0] * outputs[1], cotangents[0] * outputs[2]]
        return [*found, DisconnectedType()(), DisconnectedType()()]


# Not PyTensor's numba_njit: functions made by that cannot be called from Python, which `perform` does.
@numba.njit(cache=True)
def _sums(mu, sigma, lower, upper):  # type: ignore[no-untyped-def]  # compiled for the types it meets
    out = np.empty((mu.size, 4))
    kernels.gaussian_sums(mu, sigma, lower, upper, out)
    m = out[:, 3].copy()
    first, second = out[:, 1] / out[:, 0], out[:, 2] / out[:, 0]
    slope = (second - 2.0 * (mu - m) * first) / sigma**3
    return np.log(out[:, 0]), first / sigma**2, slope, m


@register_funcify_default_op_cache_key(GaussianSumsOp)
def _funcify(op: Any, node: Any, **kwargs: Any) -> tuple[Any, int]:
    return _sums, _VERSION


def gaussian_sums(mu: Any, sigma: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Logarithm of the sum of ``exp(-(k - m) ((k - m) - 2 (mu - m)) / (2 sigma**2))`` from lower to upper, and m.

    m is the integer within the bounds that is nearest to mu. All arguments have one shape.
    """
    flat = [pt.flatten(variable) for variable in (mu, sigma, lower, upper)]
    found: Any = GaussianSumsOp()(*flat)
    total, _, _, m = found
    return pt.reshape(total, mu.shape, ndim=mu.ndim), pt.reshape(m, mu.shape, ndim=mu.ndim)


@bounded_distribution(noise.TruncatedGaussian)
class TruncatedGaussian(BoundedContinuous):
    r"""Real values between bounds with density proportional to ``exp(-(x - mu)**2 / (2 sigma**2))``.

    .. math:: f(x \mid \mu, \sigma) = \frac{\varphi((x - \mu)/\sigma)}{\sigma\,(\Phi((u - \mu)/\sigma) - \Phi((l - \mu)/\sigma))}

    The normaliser depends on mu: it is part of the likelihood of a released statistic. Unlike `pymc.TruncatedNormal` it
    keeps its digits for locations far outside of the bounds and for narrow bounds. Quantiles are those of the law
    (`bayesdp.noise.TruncatedGaussian.ppf`); there is no `pymc.icdf`.

    ========  =====================================
    Support   :math:`x \in (l, u)`
    Mean      :math:`\mu` plus a bias inwards
    Variance  below :math:`\sigma^2`
    ========  =====================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    sigma : tensor_like of float
        Standard deviation without bounds (sigma > 0), in the unit of the statistic.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = TruncatedGaussian("noisy", mu=share, sigma=0.04, lower=0.0, upper=1.0, observed=0.37)
    """


@bounded_distribution(noise.BoundaryInflatedGaussian)
class BoundaryInflatedGaussian(pm.Continuous):
    r"""Gaussian values around mu, clipped to bounds: an atom at each finite bound (the BIT rule).

    The log-density refers to Lebesgue measure plus a unit point mass at each finite bound: at a bound it is the
    log-probability of the atom, :math:`\Phi((l - \mu)/\sigma)` or :math:`\Phi((\mu - u)/\sigma)`, and elsewhere that of
    Gaussian noise. Give it ``observed`` values: gradient-based steps cannot move a free variable of such a law onto its
    atoms.

    ========  =====================================
    Support   :math:`x \in [l, u]`, bounds included
    Mean      :math:`\mu` plus a bias inwards
    Variance  below :math:`\sigma^2`
    ========  =====================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: the confidential statistic.
    sigma : tensor_like of float
        Standard deviation before clipping (sigma > 0), in the unit of the statistic.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     share = pm.Beta("share", 1.0, 1.0)
    ...     noisy = BoundaryInflatedGaussian("noisy", mu=share, sigma=0.04, lower=0.0, upper=1.0, observed=[0.0, 0.03])
    """
