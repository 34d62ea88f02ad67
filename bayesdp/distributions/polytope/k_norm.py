"""The K-norm law as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.polytope.k_norm import KNorm as KNormLaw

__all__ = ["KNorm"]

KNorm = table_distribution(
    KNormLaw,
    r"""Real tables that share the invariants of mu, with density falling exponentially in the norm of a polytope.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

with K the hull of the vertices and their negatives, and n the dimension of the null space, on which this is the
density in orthonormal coordinates Q. Where the volume of K is not computed its term, a constant, is left out. The
density is finite for tables that break the invariants too: in a model, membership is decided by the exact part of a
release alone.

The norm is a maximum of linear forms where the facets of K can be found, and a linear program elsewhere, of microseconds to
some milliseconds. It has a gradient almost everywhere.

Parameters
----------
vertices : array_like, shape (m, n)
    In the orthonormal coordinates of the invariants (see `Invariants.coordinate_rule`); one of each pair v, -v.
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
TypeError, ValueError
    If the vertices do not fit the invariants, or do not span their null space, or the rule is not known or not that of
    the invariants.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children().values[:2, :2]
>>> margins = bdp.Invariants(bdp.Margins({"county": ["A", "B"], "education": ["L", "H"]}, ["county"], ["education"]))
>>> move = margins.coordinates([[1, -1], [-1, 1]])
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(2, 2))
...     noisy = KNorm("noisy", counts, 1.0, vertices=[move], invariants=margins, observed=table)
""",
)
