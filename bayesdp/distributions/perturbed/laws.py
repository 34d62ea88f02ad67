"""Cell keys, rounding and transition tables as PyMC distributions."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.perturbed.base import perturbed_distribution


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


@perturbed_distribution(noise.RandomRounding)
class RandomRounding(pm.Discrete):
    """Counts mu rounded at random to a multiple of a base.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    """


@perturbed_distribution(noise.ConventionalRounding)
class ConventionalRounding(pm.Discrete):
    """Counts mu rounded to the nearest multiple of a base.

    Parameters
    ----------
    base : int
        At least 2, and at most 1000.
    """


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
