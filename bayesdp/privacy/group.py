"""Group privacy: what a loss becomes over several steps, for every definition of privacy, in one place."""

from __future__ import annotations

from collections.abc import Mapping

from bayesdp import _validate
from bayesdp.privacy.stated_losses import stated_loss

GROWTH: Mapping[str, str] = {
    "pure": (
        "Epsilon grows at most in proportion to the distance: k steps, each with a loss of at most epsilon, cost at most k "
        "times epsilon."
    ),
    "zcdp": (
        "Rho grows with the square of the distance: k steps, each with a loss of at most rho, cost at most k squared times rho."
    ),
    "gdp": (
        "Mu grows at most in proportion to the distance: k steps, each with a loss of at most mu, cost at most k times mu."
    ),
    "approximate": (
        "Epsilon and delta do not grow in proportion to the distance: k steps, each with a loss of at most epsilon and delta, "
        "cost at most k times epsilon together with delta times (exp(k epsilon) - 1) / (exp(epsilon) - 1)."
    ),
}
"""How the loss grows with the distance of two tables, for each kind of guarantee: `group_loss` in words."""


def group_loss(loss: Mapping[str, float], steps: int) -> dict[str, float]:
    """The loss for two tables that are `steps` steps apart, each step with the given loss at most.

    Parameters
    ----------
    loss : mapping
        Names among ``epsilon``, ``delta``, ``rho``, ``mu``; delta only with epsilon.
    steps : int
        k, at least 1.

    Returns
    -------
    dict
        With the same names: ``k epsilon``; ``k**2 rho`` (Bun and Steinke, 2016, Proposition 1.9); ``k mu`` (Dong, Roth and
        Su, 2022, Theorem 2.14); beside epsilon ``delta (1 + e**epsilon + ... + e**((k - 1) epsilon))``, which is
        ``delta (e**(k epsilon) - 1) / (e**epsilon - 1)`` (Dwork and Roth, 2014, by the definition k times), or 1 where that
        is more than 1: every mechanism has a delta of 1, which says nothing.

    Raises
    ------
    TypeError, ValueError
        If steps is not a positive integer, or the loss is none.

    Examples
    --------
    >>> group_loss({"rho": 0.5}, 2)
    {'rho': 2.0}
    >>> print({name: round(value, 6) for name, value in group_loss({"epsilon": 1.0, "delta": 1e-4}, 3).items()})
    {'epsilon': 3.0, 'delta': 0.001111}
    >>> group_loss({"epsilon": 200.0, "delta": 1e-6}, 6)
    {'epsilon': 1200.0, 'delta': 1.0}
    """
    return dict(stated_loss(loss).group(_validate.positive_integer(steps, "steps")))
