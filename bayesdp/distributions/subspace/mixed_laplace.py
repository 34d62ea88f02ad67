"""The mixed Laplace law as a PyMC distribution."""

from __future__ import annotations

from bayesdp.distributions.tables import table_distribution
from bayesdp.noise.subspace.mixed_laplace import MixedLaplace as MixedLaplaceLaw

__all__ = ["MixedLaplace"]

MixedLaplace = table_distribution(
    MixedLaplaceLaw,
    r"""Real tables that share the invariants of mu: Laplace noise in orthonormal coordinates Q, of a scale that was drawn first.

.. math::
    \log f(x \mid \mu, b) = \log \sum_k w_k \frac{\exp(-\|Q^\top (x - \mu)\|_1 / (b r_k))}{(2 b r_k)^n}

with n the dimension of the null space, r the ratios and w the weights. It is finite for tables that break the invariants too: in a
model, membership is decided by the exact part of a release alone.

Parameters
----------
ratios, weights : array_like, shape (m,)
    Scales divided by b, and their public probabilities.
coordinates : {"helmert-1", "echelon-1"}, optional
    The rule that the release states; if given, that of the invariants must be the same.

Raises
------
ValueError
    If ratios or weights are not valid, the rule is not known, or it is not that of the invariants.
NotImplementedError
    If dimensions times cells exceed four million: the log-density needs Q as a dense matrix.
""",
    example="5.0, ratios=[1.0, 2.0], weights=[0.5, 0.5]",
)
