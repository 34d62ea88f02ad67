"""An upper confidence limit of the bound by coupled chains, although its summands have no largest value.

The bound at time t is ``sum over j >= 1 of P(tau > t + j L)``. Finitely many meeting times say nothing about how the
sum goes on, so something has to be assumed. This is what is done, and all that is assumed:

* **a time s**: one pair in five is used to choose it, so that about a tenth of all pairs are apart longer, and for
  nothing else;
* **assumption**: after s, no block of L sweeps is passed unmet with a larger probability than the first one, ``P(tau >
  u + L | tau > u) <= P(tau > s + L | tau > s) = r`` for u >= s. (Meeting times have geometric tails, and after s the
  tail should have set in; a slower rate that only one pair in thousands would show cannot be seen);
* then ``sum over j >= k of P(tau > t + j L) <= P(tau > t + k L) / (1 - r)`` for the first k with ``t + k L >= s``.

The remaining four pairs in five are independent of s. The probabilities before that k, that at k, and r have upper limits
by Clopper and Pearson, which hold at any number of pairs: r at half of ``1 - confidence``, the k others together at the
other half. A pair that was given up counts as one that never meets.

The largest value at this or a later time is reported, so that the curve never increases. That is what makes it safe to read
off the first time at which it is below a tolerance: for this to be too early, the curve must be below the truth at
one fixed time, the last one at which the truth is above the tolerance.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import betaincinv

from bayesdp._validate import probability

type Floats = npt.NDArray[np.float64]
type Ints = npt.NDArray[np.int64]

_FIRST = 5
"""One pair in so many chooses the time s."""

_APART = 0.1
"""Share of pairs that are still apart after s."""

_BLOCKS = 50
"""Times that are more blocks before s get the trivial limit 1: the lag is too short to say more."""


def clopper_pearson(successes: npt.ArrayLike, trials: int, confidence: float) -> Floats:
    """One-sided upper confidence limit of a probability.

    Examples
    --------
    >>> round(float(clopper_pearson(0, 100, 0.95)), 5), round(1 - 0.05 ** (1 / 100), 5)
    (0.02951, 0.02951)
    """
    count = np.asarray(successes, dtype=np.float64)
    inner = np.minimum(count, trials - 1.0)
    if trials == 0:
        return np.ones_like(count)
    return np.where(count < trials, betaincinv(inner + 1.0, trials - inner, confidence), 1.0)


def least_limit(pairs: int, confidence: float) -> float:
    """What the limit would be if no pair were apart any longer, and all met at once: no run can show less.

    Examples
    --------
    >>> print(f"{least_limit(10_000, 0.99):.2e}")
    6.62e-04
    """
    return float(clopper_pearson(0, pairs - pairs // _FIRST, 1.0 - 0.5 * (1.0 - confidence)))


def upper_limits(meetings: Ints, lag: int, horizon: int, times: Ints, confidence: float) -> Floats:
    """Upper confidence limits of the bound, as this module describes.

    Parameters
    ----------
    meetings : int64 array, shape (pairs,)
        Meeting times of independent pairs; 0 for a pair that was given up.
    lag, horizon : int
        As in `CouplingBound`.
    times : int64 array, shape (times,)
        Ascending.
    confidence : float
        In (0, 1).

    Returns
    -------
    float64 array, shape (times,)
        Never increasing, at most 1; 1 where nothing better is known.

    Examples
    --------
    >>> meetings = 10 + np.random.default_rng(1).geometric(0.3, size=5000)
    >>> limits = upper_limits(meetings, 10, 1000, np.array([0, 10, 20]), 0.99)
    >>> bool((limits > [0.7**10 / (1 - 0.7**10), 0.7**20 / (1 - 0.7**10), 0.0]).all())
    True
    """
    alpha = 1.0 - probability(confidence, "confidence")
    last = np.where(meetings == 0, np.iinfo(np.int64).max, meetings)
    first = np.sort(last[: len(last) // _FIRST])
    rest = np.sort(last[len(first) :])
    if not len(first):
        return np.ones(len(times))
    # The latest time after which at least a tenth of the first pairs are apart.
    s = min(int(first[len(first) - max(1, math.ceil(_APART * len(first)))]) - 1, horizon)

    def apart(u: npt.ArrayLike) -> npt.NDArray[np.intp]:
        return len(rest) - np.searchsorted(rest, u, side="right")

    r = float(clopper_pearson(apart(s + lag), int(apart(s)), 1.0 - 0.5 * alpha))
    if r >= 1.0:
        return np.ones(len(times))
    limits = np.ones(len(times))
    for i, t in enumerate(times):
        k = max(1, -((int(t) - s) // lag))
        if k <= _BLOCKS:
            each = clopper_pearson(apart(t + lag * np.arange(1, k + 1)), len(rest), 1.0 - 0.5 * alpha / k)
            limits[i] = each[:-1].sum() + each[-1] / (1.0 - r)
    return np.minimum(np.maximum.accumulate(limits[::-1])[::-1], 1.0)
