"""The extended Laplace law as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.subspace.extended_laplace import ExtendedLaplace as ExtendedLaplaceLaw

__all__ = ["ExtendedLaplace"]

ExtendedLaplace = table_distribution(
    ExtendedLaplaceLaw,
    r"""Real tables that share the invariants of mu: Laplace noise, independent in orthonormal coordinates Q.

.. math:: \log f(x \mid \mu, b) = -\frac{\|Q^\top (x - \mu)\|_1}{b} - n \log(2 b)

with n the dimension of the null space, on which this is the density in the coordinates Q. It is finite for tables that
break the invariants too: in a model, membership is decided by the exact part of a release alone.

Parameters
----------
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
ValueError
    If the rule is not known, or not that of the invariants.
NotImplementedError
    If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.
""",
    example="5.0",
)
