"""The discrete Laplace law as a PyMC distribution."""

from __future__ import annotations

import pymc as pm

from bayesdp import noise
from bayesdp.distributions.independent.scalar import scalar_distribution

__all__ = ["DiscreteLaplace"]


@scalar_distribution(noise.DiscreteLaplace)
class DiscreteLaplace(pm.Discrete):
    r"""Integers with mass proportional to ``exp(-|x - mu| / b)``, mu any real number.

    .. math:: f(x \mid \mu, b) = \frac{1 - q}{q^f + q^{1-f}} \; q^{|x - \mu|},
        \qquad q = e^{-1/b}, \; f = \mu - \lfloor\mu\rfloor

    ========  ===============================================================
    Support   :math:`x \in \mathbb{Z}`
    Mean      :math:`\mu` at integers and half-integers, near it else
    Variance  :math:`2 q / (1 - q)^2` at integer :math:`\mu`
    ========  ===============================================================

    Parameters
    ----------
    mu : tensor_like of float or int
        Location: what the noise was added to. For integer types the normaliser takes its simple form. The
        log-mass has kinks at integer mu, as the law itself does.
    b : tensor_like of float
        Scale in counts (b > 0); noise that costs epsilon for a change of one count has ``b = 1/epsilon``.
    """
