"""The l1, l2 and l-infinity laws on a subspace as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.subspace.subspace_norm import SubspaceNorm as SubspaceNormLaw

__all__ = ["SubspaceNorm"]

SubspaceNorm = table_distribution(
    SubspaceNormLaw,
    r"""Real tables that share the invariants of mu, with density falling exponentially in a norm.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log C - \epsilon \|x - \mu\|

with n the dimension of the null space, on which this is the density in orthonormal coordinates, and C the integral of
``exp(-||v||)`` over it. Where that is not computed its term, a constant, is left out (`bayesdp.noise.SubspaceNorm` says
where). The density is finite for tables that break the invariants too: in a model, membership is decided by the exact
part of a release alone.
""",
    example='0.25, norm="l2"',
)
