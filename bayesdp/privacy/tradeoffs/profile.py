"""The two faces of a privacy guarantee: a trade-off function, or several together, and the curve of all its (epsilon, delta).

Dong, Roth and Su (2022, Propositions 2.12 and 2.13): f-DP is (epsilon, delta)-DP for all epsilon with
``delta(epsilon) = 1 + f*(-exp(epsilon)) = sup over alpha of 1 - f(alpha) - exp(epsilon) alpha``, for symmetric f, and for
no smaller delta. mu-GDP has a closed form, `gaussian_delta` with ``sigma = 1 / mu``.

Several releases: the privacy loss of two laws p and q at an outcome is ``log(q / p)``. Of independent releases losses add up, so that
the law of the total loss is a convolution, and ``delta(epsilon)`` is the mean of ``max(0, 1 - exp(epsilon - loss))`` under q (Sommer,
Meiser and Mohammadi, 2019). A trade-off function f is replaced by two laws on the losses ``j h``. From below by the largest of the
lines of f with slopes ``exp(j h)``: it touches f at every slope of the grid, so that its error is of second order in h where losses
are spread out, and of first order at atoms ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022). From above by
rounding every loss down, which is of first order. They are convolved by one Fourier transform, whose rounding is bounded: every delta
of the pair is between the two that are found.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.fft
from scipy.special import ndtr

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.privacy.canonical import checked_delta
from bayesdp.privacy.gaussian import gaussian_delta, gaussian_epsilon
from bayesdp.privacy.tradeoffs.base import DiscretePair, SymmetricTradeOff, TradeOff, checked, multiplied, ordered_pair
from bayesdp.privacy.tradeoffs.laws import ApproximateTradeOff, GaussianTradeOff, LaplaceTradeOff

_OUTCOMES = 4096
"""Discrete pairs are multiplied out up to this many outcomes of different likelihood ratio,"""
_PAIRS = 1_000_000
"""and as long as one multiplication has no more pairs of outcomes than this."""
_ROUNDING = 1e-12
"""Taken off from bounds of epsilon, relative to it: rounding of the losses themselves."""
_POINTS = 2**16
"""Points of the grid of privacy losses by default."""
_LARGEST = 700.0
"""Privacy losses are cut at +-700: exp of more overflows."""
_EXPONENT = 709.0
"""The largest whole number whose exp is finite."""
_UNIT = 2.0**-53
_TAIL = 9.0
"""Normal quantile: losses of probability below 1e-19 are cut off a curved function, to the safe side."""
_NEGLIGIBLE = 1e-19
"""Mass of the alternative that the largest loss of a curved function may leave out."""
_FAR = 37.5
"""Normal quantile below which levels underflow."""
_TRANSFORM = 10.0
"""A transform of length N is exact to this many units times log2(N), relative and in the l2 norm (Higham, 2002, Theorem 24.2)."""


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
    if isinstance(curve, LaplaceTradeOff):
        return max(0.0, -math.expm1(0.5 * (at - curve.shift)))
    at = min(at, _EXPONENT)  # to the safe side: delta falls
    orders = [curve] if curve.symmetric else [curve, curve.inverse()]
    tests = [_laws(f)._at_losses(np.array([at])) for f in orders]
    return min(max(0.0, *(float(power[0] - math.exp(at) * a[0]) for a, power in tests)), 1.0)


def _laws(f: TradeOff) -> TradeOff:
    """The two discrete laws of a piecewise linear function; another one as it is."""
    return f._pair() if f._piecewise_linear else f


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
    if isinstance(curve, LaplaceTradeOff):
        exact = curve.shift + 2.0 * math.log1p(-target)
        return max(0.0, math.nextafter(exact, math.inf) if target else exact)
    target += 1e-15 * (target == 0.0)  # the profile is known to double precision
    if tradeoff_delta(curve, 0.0) <= target:
        return 0.0
    low, high = 0.0, 1.0
    while tradeoff_delta(curve, high) > target:
        low, high = high, 2.0 * high
        if high > _LARGEST:
            return math.inf
    while high - low > 1e-13 * high:
        middle = 0.5 * (low + high)
        low, high = (low, middle) if tradeoff_delta(curve, middle) <= target else (middle, high)
    return high


class EpsilonBounds(NamedTuple):
    """Bounds of the smallest epsilon at a delta; `upper` may be infinite: nothing is shown."""

    lower: float
    upper: float


def convolved_epsilon(factors: Sequence[TradeOff], delta: float) -> EpsilonBounds:
    """Bound the smallest epsilon at which several pairs of laws together are (epsilon, delta)-indistinguishable.

    `factors`: one for each release, of its two laws, each noise independent of the others. The result is equal up to rounding for
    normal laws and where the outcomes are few; otherwise some steps of a grid apart, which has 65,536 steps over the range of the
    total loss. For deltas near the bound on the rounding of the transform, about 1e-11, they move apart, and below it the upper one is
    infinite.

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
    upper = max((_epsilon(order, at, pessimistic=True) for order in _orders(list(factors))), default=0.0)
    lower = max(
        (_epsilon(order, at, pessimistic=False) for order in _orders([*map(_without_tails, factors)])), default=0.0
    )
    return EpsilonBounds(lower * (1.0 - _ROUNDING), upper * (1.0 + _ROUNDING))


def _without_tails(f: TradeOff) -> TradeOff:
    """Where an outcome of less than any rounding tells the laws apart entirely: not at all."""
    if not isinstance(f, DiscretePair) or not 0.0 < f.start < _UNIT or f.q[-1] > 0.0:
        return f
    return ordered_pair(0.0, np.array(f.p), np.array([*f.q[:-1], f.start]))


def _orders(factors: list[TradeOff]) -> list[list[TradeOff]]:
    """The factors, and where one may not be symmetric all of them with the two laws exchanged as well."""
    if not factors:
        return []
    alike = all(isinstance(f, SymmetricTradeOff) for f in factors)
    return [factors] if alike else [factors, [f.inverse() for f in factors]]


def _epsilon(factors: list[TradeOff], delta: float, *, pessimistic: bool) -> float:
    # equal ones side by side
    ordered = sorted(map(_laws, factors), key=lambda f: f.p if isinstance(f, DiscretePair) else ())
    pieces = multiplied(ordered, _OUTCOMES, _PAIRS)
    if len(pieces) == 1:
        [whole] = pieces
        if isinstance(whole, GaussianTradeOff):
            return gaussian_epsilon(delta, 1.0, whole.mu)
        if isinstance(whole, DiscretePair):
            p, q = whole._masses()
            losses = (np.log(q) - np.log(p))[::-1]
            law = _loss_profile(losses, q[::-1], whole.start, 4.0 * len(factors) * _UNIT, pessimistic)
            return _smallest_epsilon(law, delta, pessimistic=pessimistic)
    return _on_grid(pieces, delta, pessimistic=pessimistic)


def _on_grid(pieces: list[TradeOff], delta: float, *, pessimistic: bool) -> float:
    h = max(sum(high - low for low, high in map(_loss_range, pieces)) / _POINTS, 1e-9)
    return _smallest_epsilon(_convolved(pieces, h, pessimistic), delta, pessimistic=pessimistic)


def _loss_range(f: TradeOff) -> tuple[float, float]:
    """Smallest and largest finite privacy loss ``log(-f')``, within +-700."""
    if f._piecewise_linear:
        p, q = f._pair()._masses()
        losses = np.log(q) - np.log(p)
        if not losses.size:
            return 0.0, 0.0
    else:
        start, low, high = float(f.power(0.0)), -_FAR, 0.0
        while high - low > 0.01:  # the type I error below which the alternative has next to no mass either
            middle = 0.5 * (low + high)
            enough = float(f.power(float(ndtr(middle)))) - start > _NEGLIGIBLE
            low, high = (low, middle) if enough else (middle, high)
        ends = np.array([min(low, -_TAIL), _TAIL])
        with np.errstate(divide="ignore"):
            losses = np.log(f._slope(ndtr(ends), ndtr(-ends)))
    return max(float(losses.min()), -_LARGEST), min(float(losses.max()), _LARGEST)


def _rounded(f: TradeOff, h: float, pessimistic: bool) -> tuple[int, Floats, float]:
    """The alternative on the losses ``j h``: the smallest j, the masses from there on, and that on infinity.

    The pair is at least as hard to tell apart as these masses if `pessimistic` ("connect the dots"), else at least as easy.
    """
    low, high = _loss_range(f)
    j = np.arange(math.floor(low / h), math.ceil(high / h) + 2)  # one more: exp(h j) may be rounded down
    losses: Floats = np.asarray(h * j, dtype=np.float64)
    gamma = np.exp(losses)
    mass = np.zeros(j.size)
    if f._piecewise_linear:
        pair = f._pair()
        (p, q), infinite = pair._masses(), pair.start
        cell = np.clip(np.searchsorted(gamma, q / p, side="right") - 1, 0, max(j.size - 2, 0))
        beyond = q > gamma[-1] * p  # steeper than the largest loss: possible only at the limit of 700
        infinite, top = (infinite + math.fsum(q[beyond]), 0.0) if pessimistic else (infinite, math.fsum(q[beyond]))
        p, q, cell = p[~beyond], q[~beyond], cell[~beyond]
        bottom = 0.0
    else:
        a, power = f._at_losses(losses)  # a falls in j; between two grid points the slope is between gammas
        p, q = -np.diff(a), -np.diff(power)
        cell = np.arange(p.size)
        infinite = float(f.power(0.0))
        bottom, top = 1.0 - power[0], power[-1] - infinite
        if pessimistic:
            infinite, top = infinite + top, 0.0
        else:
            bottom = 0.0  # losses rounded down to minus infinity
    mass[0] += bottom
    mass[-1] += top
    if pessimistic and j.size > 1:
        # Part of the null mass to each neighbour, so that both laws keep their totals: what the lines of slope gamma do.
        above = np.clip((q - gamma[cell] * p) / (gamma[cell + 1] - gamma[cell]), 0.0, p)
        np.add.at(mass, cell, gamma[cell] * (p - above))
        np.add.at(mass, cell + 1, gamma[cell + 1] * above)
    else:
        np.add.at(mass, cell, q)
    return int(j[0]), mass, min(infinite, 1.0)


def _convolved(factors: Sequence[TradeOff], h: float, pessimistic: bool) -> Profile:
    """The profile of several pairs of laws together, by one Fourier transform, long enough that nothing wraps around."""
    made = {f: _rounded(f, h, pessimistic) for f in factors}
    found = [made[f] for f in factors]
    size = sum(masses.size - 1 for _, masses, _ in found) + 1
    length = scipy.fft.next_fast_len(size, real=True)
    transform = np.ones(length // 2 + 1, dtype=np.complex128)
    for f, count in Counter(factors).items():
        one = scipy.fft.rfft(made[f][1], length)
        for _ in range(count):
            transform *= one
    total = np.maximum(scipy.fft.irfft(transform, length)[:size], 0.0)
    # The transform of masses is at most 1 everywhere, so that errors of factors add up; in the l2 norm, which bounds a sum
    # with weights between 0 and 1 up to the root of its length.
    norms = sum(float(np.linalg.norm(masses)) for _, masses, _ in found) + 1.0
    slack = math.sqrt(size) * _TRANSFORM * _UNIT * math.log2(length) * norms
    infinite = -math.expm1(sum(math.log1p(-mass) if mass < 1.0 else -math.inf for _, _, mass in found))
    losses: Floats = np.asarray(h * (sum(first for first, _, _ in found) + np.arange(size)), dtype=np.float64)
    return _loss_profile(losses, total, infinite, slack, pessimistic)


class Profile(NamedTuple):
    """Delta as a function of epsilon, ``infinite + above - exp(epsilon) rates`` from one of the rising `losses` to the next.

    At the loss i, above is the mass of the alternative on the losses beyond, rates that of the null, and error what delta may be off.
    """

    losses: Floats
    above: Floats
    rates: Floats
    infinite: float
    error: Floats


def _loss_profile(losses: Floats, masses: Floats, infinite: float, slack: float, pessimistic: bool) -> Profile:
    """The profile of the law of the loss under the alternative: rising losses, their masses, and the mass of an infinite one.

    `slack` is the absolute error of sums of masses. Losses that are too large are infinite if `pessimistic`, else left out.
    """
    far = losses > _LARGEST
    if pessimistic:
        infinite += float(masses[far].sum())
    losses, masses = np.concatenate([[0.0], losses[(losses > 0.0) & ~far]]), masses[(losses > 0.0) & ~far]
    above = np.concatenate([np.cumsum(masses[::-1])[::-1], [0.0]])
    rates = np.concatenate([np.cumsum((masses * np.exp(-losses[1:]))[::-1])[::-1], [0.0]])
    # Sums of n terms are exact to n units, relative.
    return Profile(losses, above, rates, infinite, slack + 4.0 * (masses.size + 8) * _UNIT * above)


def _smallest_epsilon(law: Profile, delta: float, *, pessimistic: bool) -> float:
    """The smallest epsilon, at least 0, whose delta is small enough; all roundings make it larger if `pessimistic`, else smaller."""
    losses, above, rates, infinite, error = law
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
