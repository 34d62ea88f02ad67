"""Epsilon of several releases together at one delta, between bounds, by the convolution of their privacy losses.

The privacy loss of two laws p and q at an outcome is ``log(q / p)``. Of independent releases losses add up, so that the law of
the total loss is a convolution, and ``delta(epsilon)`` is the mean of ``max(0, 1 - exp(epsilon - loss))`` under q (Dong, Roth and
Su, 2022, Proposition 2.12; Sommer, Meiser and Mohammadi, 2019). Pairs with few outcomes are multiplied out. What is left is
rounded to a grid, once to the safe side and once to the other (`loss_grid`), and convolved by one Fourier transform, whose
rounding is bounded and taken off as well: the true epsilon is between the two results.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.fft

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_epsilon
from bayesdp.privacy.tradeoffs.base import SymmetricTradeOff, TradeOff
from bayesdp.privacy.tradeoffs.laws import DiscretePair, GaussianTradeOff
from bayesdp.privacy.tradeoffs.levels import Floats
from bayesdp.privacy.tradeoffs.loss_grid import LARGEST, loss_range, rounded
from bayesdp.privacy.tradeoffs.profile import as_pair, checked, product

_OUTCOMES = 4096
"""Discrete pairs are multiplied out up to this many outcomes of different likelihood ratio,"""
_PAIRS = 1_000_000
"""and as long as one multiplication has no more pairs of outcomes than this."""
_GRID = 2**16
"""Points of the grid of losses."""
_UNIT = 2.0**-53
_TRANSFORM = 10.0
"""A transform of length N is exact to this many units times log2(N), relative and in the l2 norm (Higham, 2002, Theorem 24.2)."""
_ROUNDING = 1e-12
"""Taken off from the bounds, relative to epsilon: rounding of the losses themselves."""


@dataclass(frozen=True)
class EpsilonBounds:
    """Bounds of the smallest epsilon at a delta.

    Attributes
    ----------
    lower, upper : float
        The smallest epsilon is no less and no more. `upper` may be infinite: nothing is shown.
    """

    lower: float
    upper: float


def convolved_epsilon(factors: Sequence[TradeOff], delta: float) -> EpsilonBounds:
    """Bound the smallest epsilon at which several pairs of laws together are (epsilon, delta)-indistinguishable.

    Parameters
    ----------
    factors : sequence of TradeOff
        One for each release, of its two laws, each noise independent of the others; of functions that are known between bounds
        only, both bounds are used. No factors are releases that say nothing.
    delta : float
        Strictly between 0 and 1.

    Returns
    -------
    EpsilonBounds
        Equal up to rounding for normal laws and where the outcomes are few. Otherwise some steps of a grid apart, which has 65,536
        steps over the range of the total loss. For deltas near the bound on the rounding of the transform, about 1e-11, they move
        apart, and below it the upper one is infinite.

    Raises
    ------
    TypeError, ValueError
        If a factor is not a trade-off function, or delta not between 0 and 1.

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
    upper = max((_epsilon(own, at, pessimistic=True) for own in _orders(low)), default=0.0)
    lower = max((_epsilon(own, at, pessimistic=False) for own in _orders(high)), default=0.0)
    return EpsilonBounds(lower * (1.0 - _ROUNDING), upper * (1.0 + _ROUNDING))


def _orders(factors: list[TradeOff]) -> list[list[TradeOff]]:
    """The factors, and where one may not be symmetric all of them with the two laws exchanged as well."""
    if not factors:
        return []
    alike = all(isinstance(f, SymmetricTradeOff) for f in factors)
    return [factors] if alike else [factors, [f.inverse() for f in factors]]


def _epsilon(factors: list[TradeOff], delta: float, *, pessimistic: bool) -> float:
    pieces = _multiplied(factors)
    if len(pieces) == 1:
        [whole] = pieces
        if isinstance(whole, GaussianTradeOff):
            return gaussian_epsilon(delta, 1.0, whole.mu)
        if isinstance(whole, DiscretePair):
            q, p = np.array(whole.q), np.array(whole.p)
            kept = q > 0.0
            losses = (np.log(q[kept]) - np.log(p[kept]))[::-1]
            slack = 4.0 * len(factors) * _UNIT
            return _smallest(losses, q[kept][::-1], whole.start, delta, slack, pessimistic=pessimistic)
    return _on_grid(pieces, delta, pessimistic=pessimistic)


def _multiplied(factors: list[TradeOff]) -> list[TradeOff]:
    """All normal factors as one, and discrete ones multiplied as far as their outcomes are few; the others as they are."""
    mus = [f.mu for f in factors if isinstance(f, GaussianTradeOff)]
    rest = [f for f in factors if not isinstance(f, GaussianTradeOff)]
    found: list[TradeOff] = [f for f in rest if not f._piecewise_linear]
    pairs = sorted((as_pair(f) for f in rest if f._piecewise_linear), key=lambda own: own.p)  # equal ones side by side
    whole: DiscretePair | None = None
    for pair in pairs:
        if whole is not None and len(whole.p) * len(pair.p) <= _PAIRS:
            both = product(whole, pair)
            if len(both.p) <= _OUTCOMES:
                whole = both
                continue
        found += [] if whole is None else [whole]
        whole = pair
    found += [] if whole is None else [whole]
    return [*found, GaussianTradeOff(math.hypot(*mus))] if mus else found


def _on_grid(pieces: list[TradeOff], delta: float, *, pessimistic: bool) -> float:
    """By one Fourier transform, long enough that nothing wraps around."""
    h = max(sum(high - low for low, high in map(loss_range, pieces)) / _GRID, 1e-9)
    found = [rounded(f, h, pessimistic) for f in pieces]
    size = sum(masses.size - 1 for _, masses, _ in found) + 1
    length = scipy.fft.next_fast_len(size, real=True)
    transform = np.ones(length // 2 + 1, dtype=np.complex128)
    for _, masses, _ in found:
        transform *= scipy.fft.rfft(masses, length)
    total = np.maximum(scipy.fft.irfft(transform, length)[:size], 0.0)
    # The transform of masses is at most 1 everywhere, so that errors of factors add up; in the l2 norm, which bounds a sum
    # with weights between 0 and 1 up to the root of its length.
    norms = sum(float(np.linalg.norm(masses)) for _, masses, _ in found) + 1.0
    slack = math.sqrt(size) * _TRANSFORM * _UNIT * math.log2(length) * norms
    infinite = -math.expm1(sum(math.log1p(-mass) if mass < 1.0 else -math.inf for _, _, mass in found))
    losses: Floats = np.asarray(h * (sum(first for first, _, _ in found) + np.arange(size)), dtype=np.float64)
    return _smallest(losses, total, infinite, delta, slack, pessimistic=pessimistic)


def _smallest(
    losses: Floats, masses: Floats, infinite: float, delta: float, slack: float, *, pessimistic: bool
) -> float:
    """The smallest epsilon, at least 0, whose delta is small enough; all roundings make it larger if `pessimistic`, else smaller."""
    # The law of the loss under the alternative: rising `losses`, shape (n,), their `masses`, and the mass `infinite` of an infinite
    # one. `slack` is the absolute error that delta may have.
    far = losses > LARGEST
    if pessimistic:
        infinite += float(masses[far].sum())
    losses, masses = np.concatenate([[0.0], losses[(losses > 0.0) & ~far]]), masses[(losses > 0.0) & ~far]
    # At the grid point i: what lies above it, and that at the rate of p. Sums of n terms are exact to n units, relative.
    above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
    rates = np.concatenate([np.cumsum((masses * np.exp(-losses[1:]))[::-1])[::-1], [0.0]])
    error = slack + 4.0 * (masses.size + 8) * _UNIT * above
    target = delta - infinite - error if pessimistic else delta - infinite + error
    enough = above - np.exp(losses) * rates <= target
    if not enough.any():
        return math.inf if pessimistic else float(losses[-1])
    i = int(np.argmax(enough))
    if i == 0:
        return 0.0
    # Between two points delta is above - exp(epsilon) rates, both those of the lower point.
    if above[i - 1] <= target[i - 1] or rates[i - 1] <= 0.0:
        return float(losses[i - 1])
    between = math.log((above[i - 1] - target[i - 1]) / rates[i - 1])
    return min(max(between, float(losses[i - 1])), float(losses[i]))
