"""The two faces of a privacy guarantee: a trade-off function, or several together, and the curve of all its (epsilon, delta).

Dong, Roth and Su (2022, Propositions 2.12 and 2.13): f-DP is (epsilon, delta)-DP for all epsilon with
``delta(epsilon) = 1 + f*(-exp(epsilon)) = sup over alpha of 1 - f(alpha) - exp(epsilon) alpha``, for symmetric f, and for
no smaller delta; and all these (epsilon, delta) together give f back. mu-GDP has a closed form, `gaussian_delta` with
``sigma = 1 / mu``, and ``1 / gaussian_sigma(epsilon, delta)`` is the mu that (epsilon, delta) allows for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bayesdp import _validate
from bayesdp.privacy.canonical import Floats, checked_delta, levels, points
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_epsilon
from bayesdp.privacy.tradeoffs.base import DiscretePair, SymmetricTradeOff, TradeOff, checked, from_lines, multiplied
from bayesdp.privacy.tradeoffs.grid import LARGEST, POINTS, UNIT, convolved, loss_profile, loss_range, smallest_epsilon
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, GaussianTradeOff

_OUTCOMES = 4096
"""Discrete pairs are multiplied out up to this many outcomes of different likelihood ratio,"""
_PAIRS = 1_000_000
"""and as long as one multiplication has no more pairs of outcomes than this."""
_ROUNDING = 1e-12
"""Taken off from bounds of epsilon, relative to it: rounding of the losses themselves."""


def tradeoff_delta(f: TradeOff, epsilon: float) -> float:
    """Give the smallest delta at which f-DP is (epsilon, delta)-differentially private.

    Parameters
    ----------
    f : TradeOff
        If it is not symmetric, the larger of the deltas of both orders of the hypotheses is given.
    epsilon : float
        Zero or greater.

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
    """Give the smallest epsilon at which f-DP is (epsilon, delta)-differentially private, as `tradeoff_delta` does delta.

    By bisection to 13 digits, on the safe side; infinite where no epsilon below 700 will do. `delta` is at least 0 and below 1.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp, gaussian_dp
    >>> print(f"{tradeoff_epsilon(gaussian_dp(1.0), 1e-6):.6f}")
    4.886554
    >>> print(f"{tradeoff_epsilon(approximate_dp(0.5).group(3), 0.0):.6f}")
    1.500000
    """
    curve, target = checked(f, "f"), checked_delta(delta)
    if isinstance(curve, GaussianTradeOff):
        return gaussian_epsilon(target, sigma=1.0 / curve.mu) if target > 0.0 else math.inf
    if isinstance(curve, ApproximateTradeOff) and target == curve.delta:
        return curve.epsilon
    target += 1e-15 * (target == 0.0)  # the profile is known to double precision
    if tradeoff_delta(curve, 0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while tradeoff_delta(curve, high) > target:
        low, high = high, 2.0 * high
        if high > LARGEST:
            return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if tradeoff_delta(curve, middle) <= target else (middle, high)
    return high


def profile_tradeoff(epsilon: npt.ArrayLike, delta: npt.ArrayLike) -> DiscretePair:
    """Give the trade-off function of a mechanism that is (epsilon, delta)-DP for several pairs at once.

    It is the largest of their functions ``f_{epsilon, delta}`` (Dong, Roth and Su, 2022, Proposition 2.13), piecewise linear
    and symmetric: a lower bound of the mechanism's own, which comes closer the more pairs are given.

    Parameters
    ----------
    epsilon, delta : array_like, shape (n,)
        Pairs; epsilon zero or greater, each delta from 0 to 1.

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
    bad = np.flatnonzero((budgets < 0.0) | (budgets > LARGEST))
    if bad.size:
        raise ValueError(
            f"epsilon must lie between 0 and {LARGEST:g}, but entry {bad[0]} is {float(budgets[bad[0]])!r}"
        )
    order = np.argsort(budgets, kind="stable")
    e, d = budgets[order], slacks[order]
    # 1 - delta - exp(epsilon) alpha and its inverse exp(-epsilon) (1 - delta - alpha), as lines of slope gamma.
    falling = np.exp(-e[::-1])
    gamma = np.concatenate([falling, np.exp(e)])
    return from_lines(gamma, np.concatenate([1.0 - falling * (1.0 - d[::-1]), d]))


def hockey_stick(f: TradeOff, epsilon: Floats) -> Floats:
    """``sup over alpha of power(alpha) - exp(epsilon) alpha`` for any real epsilons of at most 700, without checks."""
    curve = f._pair() if f._piecewise_linear else f
    return curve._stationary(np.exp(epsilon))[2]


class EpsilonBounds(NamedTuple):
    """Bounds of the smallest epsilon at a delta; `upper` may be infinite: nothing is shown."""

    lower: float
    upper: float


def convolved_epsilon(factors: Sequence[TradeOff], delta: float) -> EpsilonBounds:
    """Bound the smallest epsilon at which several pairs of laws together are (epsilon, delta)-indistinguishable.

    `factors`: one for each release, of its two laws, each noise independent of the others; of functions that are known between
    bounds only, both bounds are used. The result is equal up to rounding for normal laws and where the outcomes are few; otherwise
    some steps of a grid apart, which has 65,536 steps over the range of the total loss. For deltas near the bound on the rounding
    of the transform, about 1e-11, they move apart, and below it the upper one is infinite.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp, gaussian_dp
    >>> both = convolved_epsilon([gaussian_dp(0.5), *[approximate_dp(0.1)] * 10], delta=1e-6)
    >>> print(f"{both.lower:.3f} to {both.upper:.3f}")
    2.675 to 2.675
    """
    at = _validate.probability(delta, "delta")
    for i, f in enumerate(factors):
        checked(f, f"factor {i}")
    low, high = [f.lower for f in factors], [f.upper for f in factors]  # of trade-off functions: the lower loses more
    upper = max((_epsilon(order, at, pessimistic=True) for order in _orders(low)), default=0.0)
    lower = max((_epsilon(order, at, pessimistic=False) for order in _orders(high)), default=0.0)
    return EpsilonBounds(lower * (1.0 - _ROUNDING), upper * (1.0 + _ROUNDING))


def _orders(factors: list[TradeOff]) -> list[list[TradeOff]]:
    """The factors, and where one may not be symmetric all of them with the two laws exchanged as well."""
    if not factors:
        return []
    alike = all(isinstance(f, SymmetricTradeOff) for f in factors)
    return [factors] if alike else [factors, [f.inverse() for f in factors]]


def _epsilon(factors: list[TradeOff], delta: float, *, pessimistic: bool) -> float:
    ordered = [f._pair() if f._piecewise_linear else f for f in factors]
    ordered.sort(key=lambda f: f.p if isinstance(f, DiscretePair) else ())  # equal ones side by side
    pieces = multiplied(ordered, _OUTCOMES, _PAIRS)
    if len(pieces) == 1:
        [whole] = pieces
        if isinstance(whole, GaussianTradeOff):
            return gaussian_epsilon(delta, 1.0, whole.mu)
        if isinstance(whole, DiscretePair):
            p, q = whole._masses()
            losses = (np.log(q) - np.log(p))[::-1]
            law = loss_profile(losses, q[::-1], whole.start, 4.0 * len(factors) * UNIT, pessimistic)
            return smallest_epsilon(law, delta, pessimistic=pessimistic)
    return _on_grid(pieces, delta, pessimistic=pessimistic)


def _on_grid(pieces: list[TradeOff], delta: float, *, pessimistic: bool) -> float:
    h = max(sum(high - low for low, high in map(loss_range, pieces)) / POINTS, 1e-9)
    return smallest_epsilon(convolved(pieces, h, pessimistic), delta, pessimistic=pessimistic)
