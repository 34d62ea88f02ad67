"""The two faces of a privacy guarantee: a trade-off function, and the curve of all its (epsilon, delta).

Dong, Roth and Su (2022, Propositions 2.12 and 2.13): f-DP is (epsilon, delta)-DP for all epsilon with
``delta(epsilon) = 1 + f*(-exp(epsilon)) = sup over alpha of 1 - f(alpha) - exp(epsilon) alpha``, for symmetric f, and for
no smaller delta; and all these (epsilon, delta) together give f back. mu-GDP has a closed form, `gaussian_delta` with
``sigma = 1 / mu``, and ``1 / gaussian_sigma(epsilon, delta)`` is the mu that (epsilon, delta) allows for.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_epsilon
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, DiscretePair, GaussianTradeOff
from bayesdp.privacy.tradeoffs.noise import Floats, levels, points

__all__ = [
    "as_pair", "from_lines", "from_points", "ordered_pair", "product", "profile_tradeoff", "tradeoff_delta",
    "tradeoff_epsilon",
]  # fmt: skip

_FAR = 38.0
"""Normal quantile below which probabilities underflow."""
_HALVINGS = 64
_LARGEST = 700.0
"""exp of more overflows."""


def tradeoff_delta(f: TradeOff, epsilon: float) -> float:
    """Give the smallest delta at which f-DP is (epsilon, delta)-differentially private.

    Parameters
    ----------
    f : TradeOff
        If it is not symmetric, the larger of the deltas of both orders of the hypotheses is given.
    epsilon : float
        Zero or greater.

    Returns
    -------
    float
        delta, between 0 and 1.

    Raises
    ------
    TypeError, ValueError
        If f is not a trade-off function, or epsilon negative or not finite.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp, gaussian_delta, gaussian_dp
    >>> print(f"{tradeoff_delta(gaussian_dp(0.5), 1.0):.6e} {gaussian_delta(1.0, sigma=2.0):.6e}")
    6.829595e-03 6.829595e-03
    >>> print(f"{tradeoff_delta(approximate_dp(1.0), 0.5):.6f}")
    0.287649
    """
    curve, at = checked(f, "f"), _validate.nonnegative_real(epsilon, "epsilon")
    if isinstance(curve, GaussianTradeOff):
        return gaussian_delta(at, sigma=1.0 / curve.mu)
    if isinstance(curve, ApproximateTradeOff) and at >= curve.epsilon:
        return curve.delta
    one = float(hockey_stick(curve, np.array([at]))[0])
    return one if curve.symmetric else max(one, float(hockey_stick(curve.inverse(), np.array([at]))[0]))


def tradeoff_epsilon(f: TradeOff, delta: float) -> float:
    """Give the smallest epsilon at which f-DP is (epsilon, delta)-differentially private.

    Parameters
    ----------
    f : TradeOff
        As in `tradeoff_delta`.
    delta : float
        At least 0 and less than 1.

    Returns
    -------
    float
        epsilon, zero or greater, by bisection to 13 digits, on the safe side; infinite where no epsilon below 700 will do.

    Raises
    ------
    TypeError, ValueError
        If f is not a trade-off function, or delta is not in [0, 1).

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp, gaussian_dp
    >>> print(f"{tradeoff_epsilon(gaussian_dp(1.0), 1e-6):.6f}")
    4.886554
    >>> print(f"{tradeoff_epsilon(approximate_dp(0.5).group(3), 0.0):.6f}")
    1.500000
    """
    curve, slack = checked(f, "f"), _validate.nonnegative_real(delta, "delta")
    if slack >= 1.0:
        raise ValueError(f"delta must be at least 0 and less than 1, got {delta!r}")
    if isinstance(curve, GaussianTradeOff):
        return gaussian_epsilon(slack, sigma=1.0 / curve.mu) if slack > 0.0 else math.inf
    if isinstance(curve, ApproximateTradeOff) and slack == curve.delta:
        return curve.epsilon
    slack += 1e-15 * (slack == 0.0)  # the profile is known to double precision
    if tradeoff_delta(curve, 0.0) <= slack:
        return 0.0
    low, high = 0.0, 1.0
    while tradeoff_delta(curve, high) > slack:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        if tradeoff_delta(curve, middle) <= slack:
            high = middle
        else:
            low = middle
        if middle in (low, high) and high - low <= np.spacing(high):
            break
    return high


def profile_tradeoff(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> DiscretePair:
    """Give the trade-off function of a mechanism that is (epsilon, delta)-DP for several pairs at once.

    It is the largest of their functions ``f_{epsilon, delta}`` (Dong, Roth and Su, 2022, Proposition 2.13), piecewise linear
    and symmetric: a lower bound of the mechanism's own, which comes closer the more pairs are given.

    Parameters
    ----------
    epsilon, delta : array_like, shape (n,)
        Pairs; epsilon zero or greater, each delta from 0 to 1.

    Returns
    -------
    DiscretePair

    Raises
    ------
    TypeError, ValueError
        If the shapes differ, or a number is out of range.

    Examples
    --------
    >>> from bayesdp.privacy import gaussian_delta
    >>> epsilons = np.linspace(0.0, 8.0, 801)
    >>> f = profile_tradeoff(epsilons, [gaussian_delta(e, sigma=1.0) for e in epsilons])
    >>> print(f"{f(0.05):.5f}")  # as G_1
    0.74049
    """
    budgets, slacks = points(epsilon, "epsilon"), levels(delta, "delta")
    if budgets.ndim != 1 or budgets.shape != slacks.shape or not budgets.size:
        raise ValueError(
            f"epsilon and delta must be vectors of one length, at least 1, got shapes {budgets.shape} and {slacks.shape}"
        )
    bad = np.flatnonzero((budgets < 0.0) | (budgets > _LARGEST))
    if bad.size:
        raise ValueError(
            f"epsilon must lie between 0 and {_LARGEST:g}, but entry {bad[0]} is {float(budgets[bad[0]])!r}"
        )
    order = np.argsort(budgets, kind="stable")
    e, d = budgets[order], slacks[order]
    # 1 - delta - exp(epsilon) alpha and its inverse exp(-epsilon) (1 - delta - alpha), as lines of slope gamma.
    falling = np.exp(-e[::-1])
    gamma = np.concatenate([falling, np.exp(e)])
    return from_lines(gamma, np.concatenate([1.0 - falling * (1.0 - d[::-1]), d]))


def hockey_stick(f: TradeOff, epsilon: Floats) -> Floats:
    """``sup over alpha of power(alpha) - exp(epsilon) alpha`` for any real epsilons of at most 700, without checks."""
    gamma = np.exp(epsilon)
    if f._piecewise_linear:
        return _of_pair(as_pair(f), gamma)
    return stationary(f, gamma)[2]


def stationary(f: TradeOff, gamma: Floats) -> tuple[Floats, Floats, Floats]:
    """Type I error at which ``-f' = gamma``, the power there, and their ``power - gamma alpha``."""
    low, high = np.full(gamma.shape, -_FAR), np.full(gamma.shape, _FAR)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        steep = f._slope(ndtr(middle), ndtr(-middle)) > gamma  # the slope falls as alpha grows
        low, high = np.where(steep, middle, low), np.where(steep, high, middle)
    a, s = ndtr(low), ndtr(-low)
    power = f._errors(a, s)[1]
    return a, power, np.clip(power - gamma * a, np.maximum(0.0, 1.0 - gamma), 1.0)


def _of_pair(pair: DiscretePair, gamma: Floats) -> Floats:
    p, q = np.array(pair.p), np.array(pair.q)
    with np.errstate(over="ignore"):
        ratio = q / p
    mass = np.concatenate([[0.0], np.cumsum(p)])
    gain = pair.start + np.concatenate([[0.0], np.cumsum(q)])
    n = np.searchsorted(-ratio, -gamma, side="left")  # outcomes with a ratio above gamma
    return np.asarray(np.clip(gain[n] - gamma * mass[n], np.maximum(0.0, 1.0 - gamma), 1.0))


def checked(f: object, argument: str) -> TradeOff:
    """Accept a trade-off function."""
    if not isinstance(f, TradeOff):
        raise TypeError(f"{argument} must be a trade-off function such as gaussian_dp(1.0), got {type(f).__name__}")
    return f


_SAME_RATIO = 1e-13
"""Outcomes whose log likelihood ratios differ by no more, relative to their size, are one outcome."""


def from_points(alpha: Floats, power: Floats) -> DiscretePair:
    """Join points (type I error, power) by straight lines: from (0, w) to (1, 1), rising and concave."""
    p, q = np.diff(alpha), np.diff(power)
    kept = p > 0.0
    return ordered_pair(float(power[0]), p[kept], np.maximum(q[kept], 0.0))


def ordered_pair(start: float, p: Floats, q: Floats) -> DiscretePair:
    """Put outcomes into falling order of q / p."""
    with np.errstate(over="ignore"):
        order = np.argsort(-(q / p), kind="stable")
    return DiscretePair(min(max(start, 0.0), 1.0), tuple(p[order].tolist()), tuple(q[order].tolist()))


def from_lines(gamma: Floats, delta: Floats) -> DiscretePair:
    """Give the largest of the lines ``1 - delta - gamma alpha``, and 0."""
    # Source: Dong, Roth and Su (2022, Proposition 2.13). The largest of the lines depends on the lower convex hull of the points
    # (gamma, delta) only, and its corners are the slopes of that hull. `gamma`, `delta`: slopes, positive, in rising order, and the
    # deltas that belong to them.
    hull_g, hull_d = [0.0], [1.0]
    for g, d in zip(gamma.tolist(), np.clip(delta, 0.0, 1.0).tolist(), strict=True):
        while len(hull_g) > 1 and (hull_d[-1] - hull_d[-2]) * (g - hull_g[-1]) >= (d - hull_d[-1]) * (
            hull_g[-1] - hull_g[-2]
        ):
            hull_g.pop()
            hull_d.pop()
        hull_g.append(g)
        hull_d.append(d)
    slopes, heights = np.array(hull_g), np.array(hull_d)
    corners = np.clip(-np.diff(heights) / np.diff(slopes), 0.0, 1.0)  # falling, as the slopes rise
    corners = np.minimum.accumulate(corners)
    ends = np.concatenate([corners[::-1], [1.0]])  # type I errors at the ends of the segments, from 0 on
    p = np.diff(np.concatenate([[0.0], ends]))
    q = slopes[::-1] * p
    kept = p > 0.0
    return ordered_pair(float(heights[-1]), p[kept], q[kept])


def as_pair(f: TradeOff) -> DiscretePair:
    """Write a piecewise linear function as the trade-off of two discrete laws."""
    if isinstance(f, DiscretePair):
        return f
    if isinstance(f, ApproximateTradeOff):
        shrink = math.exp(-f.epsilon)
        small, large = (1.0 - f.delta) * shrink / (1.0 + shrink), (1.0 - f.delta) / (1.0 + shrink)
        p, q = [small, large], [large, small]
        if f.delta:
            p, q = [*p, f.delta], [*q, 0.0]
        if small == 0.0:  # exp(-epsilon) underflows: the mass of an outcome that tells the tables apart
            return DiscretePair(f.delta + large, tuple(p[1:]), (0.0,) * len(p[1:]))
        return DiscretePair(f.delta, tuple(p), tuple(q))
    a = np.unique(np.concatenate([[0.0, 1.0], f._kinks()]))
    return from_points(a, f._errors(a, 1.0 - a)[1])


def product(one: DiscretePair, other: DiscretePair) -> DiscretePair:
    """Trade-off of the product laws, exactly; outcomes of equal likelihood ratio are put together, which loses nothing."""
    start = one.start + other.start - one.start * other.start
    p, q = np.outer(one.p, other.p).reshape(-1), np.outer(one.q, other.q).reshape(-1)
    kept = p > 0.0  # products may underflow
    p, q = p[kept], q[kept]
    with np.errstate(divide="ignore"):
        ratio = np.log(q) - np.log(p)
    order = np.argsort(-ratio, kind="stable")
    p, q, ratio = p[order], q[order], ratio[order]
    with np.errstate(invalid="ignore"):  # two ratios of zero
        gap = ratio[:-1] - ratio[1:]
    new = np.concatenate([[True], gap > _SAME_RATIO * (1.0 + np.abs(ratio[:-1]))])
    first = np.flatnonzero(new)
    return ordered_pair(start, np.add.reduceat(p, first), np.add.reduceat(q, first))
