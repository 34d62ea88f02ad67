"""The correlated Gaussian law as a PyMC distribution."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt
import scipy.linalg
from pymc.distributions.dist_math import check_parameters
from pymc.logprob.abstract import _logprob

from bayesdp.distributions._parameters import checked_location, scale
from bayesdp.distributions.subspace._coordinates import FixedMatrix, linear_coordinates
from bayesdp.distributions.tables import TableNoiseRV, applied, nearest_table
from bayesdp.invariants import Invariants
from bayesdp.noise.subspace.coordinates import checked_rule, same_rule
from bayesdp.noise.subspace.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussianLaw
from bayesdp.noise.subspace.correlated_gaussian import checked_covariance

__all__ = ["CorrelatedGaussian"]


class CorrelatedGaussianRV(TableNoiseRV):
    """Random variable of `CorrelatedGaussian`.

    Parameters
    ----------
    invariants : Invariants
    covariance : FixedMatrix
        At sigma 1, in the coordinates of the invariants.
    """

    name = "correlated_gaussian"
    dtype = "float64"
    _print_name = ("CorrelatedGaussian", r"\operatorname{CorrelatedGaussian}")
    __props__ = (*TableNoiseRV.__props__, "covariance")

    def __init__(self, invariants: Invariants, covariance: FixedMatrix, **props: Any) -> None:
        self.covariance = covariance
        super().__init__(invariants, **props)

    def law(self, scale: float) -> CorrelatedGaussianLaw:
        """Give the noise law at one sigma."""
        return CorrelatedGaussianLaw(scale**2 * self.covariance.values, self.invariants.coordinate_rule)


class CorrelatedGaussian(pm.Continuous):
    r"""Real tables that share the invariants of mu: normal noise with a given covariance in orthonormal coordinates Q.

    .. math::
        \log f(x \mid \mu, \sigma) = -\frac{c^\top \Sigma^{-1} c}{2\sigma^2} - n \log(\sigma\sqrt{2\pi})
        - \tfrac12 \log\det\Sigma, \qquad c = Q^\top (x - \mu)

    with n the dimension of the null space, on which this is the density in the coordinates Q. It is finite for tables that
    break the invariants too: in a model, membership is decided by the exact part of a release alone.

    Parameters
    ----------
    mu : tensor_like, shape (..., *table)
        The table that the noise was added to.
    sigma : tensor_like of float, default 1
        Multiplies the noise (sigma > 0), one for a table.
    covariance : array_like, shape (n, n)
        Symmetric positive definite; fixed numbers, in coordinates Q.
    invariants : Invariants
        What the noise does not change.
    coordinates : {"helmert-1", "echelon-1"}, optional
        The rule that the release states; if given, that of the invariants must be the same.

    Raises
    ------
    TypeError, ValueError
        If the covariance is not symmetric positive definite or does not fit the invariants, or the rule is not known or
        not that of the invariants.
    NotImplementedError
        If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.

    See Also
    --------
    bayesdp.CorrelatedGaussian : the mechanism of the same name; it takes privacy parameters.
    bayesdp.noise.CorrelatedGaussian : the same law without PyMC.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesdp as bdp
    >>> counties = {"county": ["Alpha", "Beta", "Gamma"]}
    >>> total = bdp.Invariants(bdp.Totals(counties))
    >>> with pm.Model():
    ...     counts = pm.Poisson("counts", 10.0, shape=3)
    ...     noisy = CorrelatedGaussian(
    ...         "noisy", counts, covariance=[[4.0, 1.0], [1.0, 2.0]], invariants=total, observed=[9.5, 12.5, 8.0]
    ...     )
    """

    rv_type = CorrelatedGaussianRV

    @classmethod
    def rv_op(cls, mu: Any, sigma: Any, *, invariants: Invariants, covariance: FixedMatrix, **kwargs: Any) -> Any:
        """Apply the random variable of these invariants and this covariance."""
        return applied(CorrelatedGaussianRV(invariants, covariance), mu, sigma, **kwargs)

    @classmethod
    def dist(
        cls,
        mu: Any,
        sigma: Any = 1.0,
        *,
        covariance: npt.ArrayLike,
        invariants: Invariants,
        coordinates: str | None = None,
        **kwargs: Any,
    ) -> Any:
        """Make an unregistered variable; see the class for the parameters."""
        location, width = checked_location(mu, invariants), scale(sigma, "sigma")
        matrix = checked_covariance(covariance)
        if len(matrix) != invariants.dimension:
            raise ValueError(
                f"covariance has {len(matrix)} rows, but the invariants leave {invariants.dimension} dimensions free"
            )
        if coordinates is not None:
            same_rule(invariants, checked_rule(coordinates), "correlated-gaussian")
        return super().dist([location, width], invariants=invariants, covariance=FixedMatrix(matrix), **kwargs)

    def support_point(rv: Any, size: Any, mu: Any, sigma: Any) -> Any:  # PyMC passes the variable
        """Give mu itself."""
        return nearest_table(rv, mu)


@_logprob.register(CorrelatedGaussianRV)
def _correlated_gaussian_logp(
    op: CorrelatedGaussianRV, values: Any, rng: Any, size: Any, mu: Any, sigma: Any, **_: Any
) -> Any:
    [value] = values
    factor = scipy.linalg.cholesky(op.covariance.values, lower=True)
    whitening = scipy.linalg.solve_triangular(factor, np.eye(len(factor)), lower=True)
    white = linear_coordinates(value - mu, op.invariants, whitening)
    density = -0.5 * pt.sum(pt.sqr(white), axis=-1) / sigma**2
    density -= op.invariants.dimension * pt.log(sigma * math.sqrt(2.0 * math.pi))
    density -= float(np.sum(np.log(np.diagonal(factor))))
    return check_parameters(density, sigma > 0, msg="sigma > 0")
