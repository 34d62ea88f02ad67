"""How far the ranks of chains that agree stray from uniform: a simultaneous band, exact for independent draws.

The distribution function of one chain's ranks among the draws of all chains is compared with the diagonal. If `chains`
chains of `n` independent draws each have one law, the number of a chain's draws among the `k` smallest of all is
hypergeometric, with variance ``n (k / N) (1 - k / N) (1 - 1 / chains) N / (N - 1)`` for ``N = chains n``. A band for independent
uniform numbers is wider by ``sqrt(chains / (chains - 1))``, which for two chains is a factor of 1.41 in width.

The band is ``limit`` standard deviations wide at each point of a grid, and the probability that a chain leaves it anywhere
is found by following the hypergeometric counts from draw to draw (a Markov chain), not by simulation.
"""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module

import numpy as np
import numpy.typing as npt

type Floats = npt.NDArray[np.float64]

POINTS = 99
"""Points of the grid between 0 and 1 at which chains are compared with the band."""
_MOST = 400
"""The limit for more draws than this is that for so many: it has settled by then, on a grid of 99 points."""
_QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def leaving_probability(n: int, chains: int, width: float) -> float:
    """Probability that the ranks of one chain leave the band at some point of the grid.

    Parameters
    ----------
    n : int
        Independent draws of each chain.
    chains : int
        Two or more.
    width : float
        Half the width of the band, in standard deviations.

    Returns
    -------
    float

    Examples
    --------
    Two draws a chain: the counts stray by one at most, which is less than two standard deviations.

    >>> leaving_probability(2, 2, 2.0)
    0.0
    """
    total = n * chains
    taken = np.arange(total + 1)
    spread = np.sqrt(n * (taken / total) * (1 - taken / total) * (1 - 1 / chains) * total / (total - 1))
    compared = np.zeros(total + 1, dtype=bool)
    compared[np.unique(np.rint(np.arange(1, POINTS + 1) / (POINTS + 1) * total).astype(np.int64))] = True
    compared[[0, total]] = False
    counts = np.arange(n + 1)
    inside = np.zeros(n + 1)
    inside[0] = 1.0
    for k in range(total):
        mine = (n - counts) / (total - k)  # probability that the next smallest draw is of this chain
        moved = inside * (1.0 - mine)
        moved[1:] += inside[:-1] * mine[:-1]
        inside = np.maximum(moved, 0.0)
        if compared[k + 1]:
            # The tolerance keeps counts on the very edge inside, whatever the rounding.
            inside[np.abs(counts - (k + 1) / chains) > width * spread[k + 1] + 1e-9] = 0.0
    return float(max(0.0, 1.0 - inside.sum()))


@lru_cache(maxsize=64)
def limit(n: int, chains: int, level: float) -> float:
    """Half the width of the band in standard deviations: any of the chains leaves it with probability `level` at most.

    Parameters
    ----------
    n : int
        Independent draws of each chain.
    chains : int
        Two or more.
    level : float
        Of all chains together. Two chains leave their bands together, as one's ranks are what the other's are not; the
        level of more chains is divided by their number (Bonferroni).
    """
    shared = level if chains == 2 else level / chains
    size = max(min(n, _MOST), 2)
    low, high = 0.0, 12.0
    while high - low > 0.01:
        middle = (low + high) / 2
        low, high = (low, middle) if leaving_probability(size, chains, middle) <= shared else (middle, high)
    return high


def half_width(n: float, chains: int, level: float, z: Floats) -> Floats:
    """Half the width of the band of the distribution function less the diagonal, at each `z` between 0 and 1."""
    # `n`: effective draws of each chain. `chains`, `level`: as for `limit`.
    count = max(n, 2.0)
    scale = np.sqrt(z * (1 - z) * (1 - 1 / chains) / count * (count * chains) / (count * chains - 1))
    return np.asarray(limit(int(count), chains, level) * scale)


def effective_draws(ranks: Floats) -> float:
    """How many independent draws a chain's ranks are worth, as far as shares of draws below a rank go."""
    # `ranks`, shape (chain, draw): fractional ranks among all draws. That is the effective sample size *within* chains of the
    # indicator that a draw is below a rank: the mean over the chains, the smallest over five ranks, at most the number of draws.
    # The usual effective sample size, of all chains together, is small where chains disagree, and would widen the band just there.
    array_stats = import_module("arviz_stats.base").array_stats  # the package has no types
    chains, draws = ranks.shape
    found = float(draws)
    for z in _QUANTILES:
        below = (ranks <= z).astype(np.float64)
        sizes = np.full(chains, float(draws))
        for c in np.flatnonzero(np.ptp(below, axis=1) > 0):
            with np.errstate(all="ignore"):
                ess = float(array_stats.ess(below[c][None], chain_axis=0, draw_axis=1, method="mean"))
            sizes[c] = min(ess, draws) if np.isfinite(ess) else 1.0
        found = min(found, float(sizes.mean()))
    return found
