"""Published counts with probabilities given true ones as a PyMC distribution."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.perturbed.base import perturbed_distribution

__all__ = ["TransitionTable"]


@perturbed_distribution(noise.TransitionTable)
class TransitionTable(pm.Discrete):
    """Counts published for counts mu, with probabilities of the deviations that are given.

    Parameters
    ----------
    deviations : sequence of int
        Increasing.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     published = TransitionTable("published", count, [-1, 0, 1], [[0, 1, 0], [0.2, 0.6, 0.2]], observed=12)
    """
