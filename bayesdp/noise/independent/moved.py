"""Trade-off functions of independent noise around two centres; see `NoiseLaw.moved`."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from bayesdp.privacy.tradeoffs import TradeOff, approximate_dp
from bayesdp.privacy.tradeoffs.derived import Bracketed
from bayesdp.privacy.tradeoffs.laws import DiscretePair
from bayesdp.privacy.tradeoffs.profile import ordered_pair

MOST_OUTCOMES = 50_000
"""Outcomes that are written out."""


def moved_discrete_laplace(rate: float, by: int) -> TradeOff | None:
    """Of mass proportional to ``exp(-rate |z|)``: all integers up to one centre have the same loss, and all from the other on.

    Examples
    --------
    >>> moved_discrete_laplace(0.5, 1)  # randomised response
    ApproximateTradeOff(epsilon=0.5, delta=0.0)
    """
    if by == 1:
        return approximate_dp(rate)
    if by > MOST_OUTCOMES or rate * by > 700.0:
        return None
    q = math.exp(-rate)
    k = np.arange(1, by)
    null = np.concatenate([[1.0 / (1.0 + q)], (1.0 - q) / (1.0 + q) * q**k, [q**by / (1.0 + q)]])
    return DiscretePair(0.0, tuple(null[::-1].tolist()), tuple(null.tolist()))


def moved_by_masses(masses: npt.NDArray[np.float64], by: int) -> TradeOff | None:
    """Of masses of the integers ``-n, ..., n``; what is beyond tells the two apart entirely (below), or not at all (above)."""
    # `masses`, shape (2 n + 1,): symmetric. What they lack to 1 must be below 1e-20 by their formula: their sum is 1 up to
    # rounding.
    if masses.size + by > MOST_OUTCOMES:
        return None
    beyond = np.zeros(by)
    null, other = np.concatenate([masses, beyond]), np.concatenate([beyond, masses])
    both = (null > 0.0) & (other > 0.0)
    p, q = null[both], other[both]
    alone = float(
        other[null == 0.0].sum()
    )  # of each centre the far side of the other one's integers; masses may underflow
    below = ordered_pair(alone, np.append(p, alone), np.append(q, 0.0))
    return Bracketed(below, ordered_pair(0.0, np.append(p, alone), np.append(q, alone)))
