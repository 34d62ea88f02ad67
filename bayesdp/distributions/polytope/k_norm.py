"""K-norm noise of real and of integer tables, and of Semi-DP, as PyMC distributions."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.polytope.k_norm import KNorm as KNormLaw
from bayesdp.noise.polytope.lattice_k_norm import LatticeKNorm as LatticeKNormLaw
from bayesdp.noise.semi.semi_k_norm import SemiKNorm as SemiKNormLaw

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


LatticeKNorm = table_distribution(
    LatticeKNormLaw,
    r"""Integer tables that share the invariants of mu, with mass falling exponentially in the norm of a polytope.

.. math:: f(x \mid \mu, \epsilon) = e^{-\epsilon \|x - \mu\|_K} / Z(\epsilon), \qquad A x = A \mu

Either K is the hull of all that a number of records can change without changing an invariant (`adjacency`), or its
vertices are listed. The log-mass is finite for tables that break the invariants too (the norm is that of their
projection): in a model, membership is decided by the exact part of a release alone.

Raises
------
NotImplementedError
    If epsilon is not a constant and the norm is not a multiple of the l1 norm whose Z is known. For a constant
    epsilon, an unknown Z is left out.
""",
    example="1.0, adjacency=3",
)


SemiKNorm = table_distribution(
    SemiKNormLaw,
    r"""Real tables that share the invariants of mu, with density falling in the norm of the hull of a sensitivity space.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

with K the hull of all that so many records can change without changing an invariant. See `KNorm` for the rest.

Parameters
----------
invariants : Invariants
    Disjoint totals, or both margins of a two-way table.

Raises
------
NotImplementedError, TypeError, ValueError
    As `bayesdp.hulls.SensitivityHull`.
""",
    example="1.0, adjacency=3",
)
