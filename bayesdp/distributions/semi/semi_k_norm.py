"""The K-norm law of Semi-DP as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.semi.semi_k_norm import SemiKNorm as SemiKNormLaw

__all__ = ["SemiKNorm"]

SemiKNorm = table_distribution(
    SemiKNormLaw,
    r"""Real tables that share the invariants of mu, with density falling in the norm of the hull of a sensitivity space.

.. math:: \log f(x \mid \mu, \epsilon) = n \log \epsilon - \log(n!\,\mathrm{vol}\, K) - \epsilon \|Q^T(x - \mu)\|_K

with K the hull of all that so many records can change without changing an invariant. See `KNorm` for the rest.

Parameters
----------
mu : tensor_like, shape (..., *table)
    The table that the noise was added to.
epsilon : tensor_like of float
    Rate for each unit of the norm (epsilon > 0), one for a table.
adjacency : int
    Number of records; 2 or 3 for both margins of a table.
invariants : Invariants
    Disjoint totals, or both margins of a two-way table.

Raises
------
NotImplementedError, TypeError, ValueError
    As `bayesdp.hulls.SensitivityHull`.

See Also
--------
bayesdp.noise.SemiKNorm : the same law without PyMC.

Examples
--------
>>> import pymc as pm
>>> import bayesdp as bdp
>>> table = bdp.datasets.delinquent_children()
>>> margins = bdp.Invariants(bdp.Margins(table, ["county"], ["education"]))
>>> with pm.Model():
...     counts = pm.Poisson("counts", 10.0, shape=(4, 4))
...     noisy = SemiKNorm("noisy", counts, 1.0, adjacency=3, invariants=margins, observed=table.values)
""",
)
