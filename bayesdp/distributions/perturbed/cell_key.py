"""Counts perturbed by cell keys as a PyMC distribution. The decorator completes the docstring by that of the law."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.perturbed.base import perturbed_distribution

__all__ = ["CellKey"]


@perturbed_distribution(noise.CellKey)
class CellKey(pm.Discrete):
    """Counts mu perturbed by cell keys, by a perturbation table that is given or that of maximum entropy.

    Parameters
    ----------
    ptable : TransitionTable, optional
        The office's own table, as from `bayesdp.noise.read_ptable`; the other parameters must then be left out.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     count = pm.Poisson("count", 9.0)
    ...     published = CellKey("published", mu=count, max_deviation=4, variance=2.0, observed=12)
    """
