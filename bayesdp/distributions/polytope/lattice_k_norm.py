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

Raises
------
NotImplementedError
    If epsilon is not a constant and the norm is not a multiple of the l1 norm whose Z is known. For a constant
    epsilon, an unknown Z is left out.
""",
    example="1.0, adjacency=3",
)
