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
invariants : Invariants
    Disjoint totals, or both margins of a two-way table.

Raises
------
NotImplementedError, TypeError, ValueError
    As `bayesdp.hulls.SensitivityHull`.
""",
    example="1.0, adjacency=3",
)
