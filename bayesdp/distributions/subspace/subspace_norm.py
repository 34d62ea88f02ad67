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

Parameters
----------
mu : tensor_like, shape (..., *table)
    The table that the noise was added to.
epsilon : tensor_like of float
    Rate per count (epsilon > 0), one for a table.
norm : {"l1", "l2", "linf"}, default "l1"
invariants : Invariants
    What the noise does not change.

See Also
--------
bayesdp.SemiNorm : the mechanism; it takes privacy parameters.
bayesdp.noise.SubspaceNorm : the same law without PyMC.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = SubspaceNorm("noisy", counts, 0.25, norm="l2", invariants=margins, observed=table.values)
""",
)
