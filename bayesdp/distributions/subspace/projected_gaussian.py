"""The projected Gaussian law as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.subspace.projected_gaussian import ProjectedGaussian as ProjectedGaussianLaw

__all__ = ["ProjectedGaussian"]

ProjectedGaussian = table_distribution(
    ProjectedGaussianLaw,
    r"""Real tables that share the invariants of mu: normal noise, projected onto what they leave free.

.. math:: \log f(x \mid \mu, \sigma) = -\frac{\|x - \mu\|_2^2}{2\sigma^2} - n \log(\sigma\sqrt{2\pi})

with n the dimension of the null space, on which this is the density in orthonormal coordinates. It is
finite for tables that break the invariants too: in a model, membership is decided by the exact part of a
release alone.
""",
    example="5.0",
)
