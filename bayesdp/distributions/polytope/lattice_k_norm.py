"""The K-norm law on a lattice as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.polytope.lattice_k_norm import LatticeKNorm as LatticeKNormLaw

__all__ = ["LatticeKNorm"]

LatticeKNorm = table_distribution(
    LatticeKNormLaw,
    r"""Integer tables that share the invariants of mu, with mass falling exponentially in the norm of a polytope.

.. math:: f(x \mid \mu, \epsilon) = e^{-\epsilon \|x - \mu\|_K} / Z(\epsilon), \qquad A x = A \mu

Either K is the hull of all that a number of records can change without changing an invariant (`adjacency`), or its
vertices are listed. The log-mass is finite for tables that break the invariants too (the norm is that of their
projection): in a model, membership is decided by the exact part of a release alone.

Parameters
----------
mu : tensor_like of int, shape (..., *table)
    The table that the noise was added to.
epsilon : tensor_like of float
    Rate for each unit of the norm (epsilon > 0), one for a table.
adjacency : int, optional
    Number of records; 2 or 3 for both margins of a table.
vertices : array_like of int, shape (m, *table), optional
    Instead: one of each pair v, -v.
invariants : Invariants
    What the noise does not change.

Raises
------
NotImplementedError
    If epsilon is not a constant and the norm is not a multiple of the l1 norm whose Z is known. For a constant
    epsilon, an unknown Z is left out.

See Also
--------
bayesdp.noise.LatticeKNorm : the same law without PyMC.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = LatticeKNorm("noisy", counts, 1.0, adjacency=3, invariants=margins, observed=table.values)
""",
)
