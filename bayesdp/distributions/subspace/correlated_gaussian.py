"""The correlated Gaussian law as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.subspace.correlated_gaussian import CorrelatedGaussian as CorrelatedGaussianLaw

__all__ = ["CorrelatedGaussian"]

CorrelatedGaussian = table_distribution(
    CorrelatedGaussianLaw,
    r"""Real tables that share the invariants of mu: normal noise with a given covariance in orthonormal coordinates Q.

.. math::
    \log f(x \mid \mu, \sigma) = -\frac{c^\top \Sigma^{-1} c}{2\sigma^2} - n \log(\sigma\sqrt{2\pi})
    - \tfrac12 \log\det\Sigma, \qquad c = Q^\top (x - \mu)

with n the dimension of the null space, on which this is the density in the coordinates Q. It is finite for tables that
break the invariants too: in a model, membership is decided by the exact part of a release alone.

Parameters
----------
sigma : tensor_like of float, default 1
    Multiplies the noise (sigma > 0), one for a table.
covariance : array_like, shape (n, n)
    Symmetric positive definite; fixed numbers, in coordinates Q.
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
TypeError, ValueError
    If the covariance is not symmetric positive definite or does not fit the invariants, or the rule is not known or
    not that of the invariants.
NotImplementedError
    If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.

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
""",
)
