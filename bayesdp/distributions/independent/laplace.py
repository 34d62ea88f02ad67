"""The Laplace law as a PyMC distribution of noise."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.independent.scalar import scalar_distribution

__all__ = ["Laplace"]


@scalar_distribution(noise.Laplace)
class Laplace(pm.Continuous):
    r"""Real numbers with density ``exp(-|x - mu| / b) / (2 b)``: the Laplace mechanism.

    The same law as `pymc.Laplace`, computed in double precision throughout. About counts (`bayesdp.ConfidentialCounts`) it is
    one of the laws with exact conditional steps.

    ========  ======================
    Support   real numbers
    Mean      mu
    Variance  ``2 b**2``
    ========  ======================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. The log-density has a kink where it meets the value.
    b : tensor_like of float
        Scale in counts (b > 0); noise that costs epsilon for a change of one count has ``b = 1/epsilon``.
    """
