"""Rounded counts as PyMC distributions. The decorator completes the docstrings by those of the laws."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.perturbed.base import perturbed_distribution

__all__ = ["ConventionalRounding", "RandomRounding"]


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
