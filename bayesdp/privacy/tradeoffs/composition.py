"""Privacy losses of one pair of laws on a grid, rounded to the safe side and to the other.

A trade-off function f is replaced by two laws on the losses ``j h``. From below by the largest of the lines of f with slopes
``exp(j h)``: it touches f at every slope of the grid, so that its error is of second order in h where the losses are spread out, and
of first order at atoms ("connect the dots", Doroshenko, Ghazi, Kamath, Kumar and Manurangsi, 2022). From above by rounding every
loss down, which is of first order.

Composition of trade-off functions: their tensor product, before and after an invariant is taken into account.

Products without a closed form are taken on a grid of privacy losses, by dp-accounting, rounded to the safe side and to the other
(`bayesdp.privacy.tradeoffs.composition`). What they amount to at one delta needs no dp-accounting: `convolved_epsilon`.

Epsilon of several releases together at one delta, between bounds, by the convolution of their privacy losses.

The privacy loss of two laws p and q at an outcome is ``log(q / p)``. Of independent releases losses add up, so that the law of
the total loss is a convolution, and ``delta(epsilon)`` is the mean of ``max(0, 1 - exp(epsilon - loss))`` under q (Dong, Roth and
Su, 2022, Proposition 2.12; Sommer, Meiser and Mohammadi, 2019). Pairs with few outcomes are multiplied out. What is left is
rounded to a grid, once to the safe side and once to the other (`loss_grid`), and convolved by one Fourier transform, whose
rounding is bounded and taken off as well: the true epsilon is between the two results.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.fft
from scipy.special import ndtr

from bayesdp import _validate
from bayesdp.privacy.gaussian import gaussian_epsilon
from bayesdp.privacy.tradeoffs.base import Bracketed, SymmetricTradeOff, TradeOff
from bayesdp.privacy.tradeoffs.laws import DiscretePair, GaussianTradeOff, LaplaceTradeOff
from bayesdp.privacy.tradeoffs.noise import Floats
from bayesdp.privacy.tradeoffs.profile import as_pair, checked, from_lines, product, stationary

__all__ = ["bounds", "composition_first", "semi_first", "tensor_product"]

LARGEST = 700.0
"""Privacy losses are cut at +-700: exp of more overflows."""
_TAIL = 9.0
"""Normal quantile: losses of probability below 1e-19 are cut off a curved function, to the safe side."""
_NEGLIGIBLE = 1e-19
"""Mass of the alternative that the largest loss of a curved function may leave out."""
_FAR = 37.5
"""Normal quantile below which levels underflow."""


def loss_range(f: TradeOff) -> tuple[float, float]:
    """Smallest and largest finite privacy loss ``log(-f')``, within +-700."""
    if f._piecewise_linear:
        pair = as_pair(f)
        p, q = np.array(pair.p), np.array(pair.q)
        losses = np.log(q[q > 0.0]) - np.log(p[q > 0.0])
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
    return max(float(losses.min()), -LARGEST), min(float(losses.max()), LARGEST)


def rounded(f: TradeOff, h: float, pessimistic: bool) -> tuple[int, Floats, float]:
    """The alternative on the losses ``j h``: the smallest j, the masses from there on, and that on infinity.

    Parameters
    ----------
    f : TradeOff
        Of the pair of laws.
    h : float
        Width of the grid.
    pessimistic : bool
        Whether the pair is at least as hard to tell apart as these masses ("connect the dots"). Otherwise every loss is rounded
        down, and the pair is at least as easy to tell apart as these masses.
    """
    low, high = loss_range(f)
    j = np.arange(math.floor(low / h), math.ceil(high / h) + 2)  # one more: exp(h j) may be rounded down
    losses: Floats = np.asarray(h * j, dtype=np.float64)
    gamma = np.exp(losses)
    mass = np.zeros(j.size)
    if f._piecewise_linear:
        pair = as_pair(f)
        p, q, infinite = np.array(pair.p), np.array(pair.q), pair.start
        p, q = p[q > 0.0], q[q > 0.0]
        cell = np.clip(np.searchsorted(gamma, q / p, side="right") - 1, 0, max(j.size - 2, 0))
        beyond = q > gamma[-1] * p  # steeper than the largest loss: possible only at the limit of 700
        infinite, top = (infinite + math.fsum(q[beyond]), 0.0) if pessimistic else (infinite, math.fsum(q[beyond]))
        p, q, cell = p[~beyond], q[~beyond], cell[~beyond]
        bottom = 0.0
    else:
        a, power = _at_slopes(f, losses)  # a falls in j; between two grid points the slope is between gammas
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


def _at_slopes(f: TradeOff, losses: Floats) -> tuple[Floats, Floats]:
    """Type I error and power of the test that rejects above each loss; in closed form where there is one."""
    if isinstance(f, GaussianTradeOff):
        return ndtr(-losses / f.mu - 0.5 * f.mu), ndtr(0.5 * f.mu - losses / f.mu)
    if isinstance(f, LaplaceTradeOff):
        return f.at_losses(losses)
    a, power, _ = stationary(f, np.exp(losses))
    return a, power


_EXACT_OUTCOMES = 20_000
"""Products of discrete laws are exact up to this many outcomes of different likelihood ratio."""
_EXACT_PAIRS = 2_000_000
"""Largest number of pairs of outcomes in one multiplication of an exact product."""
_GRID = 2**16
"""Points of the grid of privacy losses by default,"""
_FINEST = 1e-6
"""and the smallest width of its steps."""


def tensor_product(*factors: TradeOff, interval: float | None = None) -> TradeOff:
    """Give the trade-off function of mechanisms that are run on the same table, each with noise of its own.

    The tensor product of ``T(P1, Q1)`` and ``T(P2, Q2)`` is ``T(P1 x P2, Q1 x Q2)`` (Dong, Roth and Su, 2022,
    Definition 3.1). Gaussians multiply exactly, ``G_mu (x) G_nu = G_sqrt(mu^2 + nu^2)``, and so do laws with few outcomes
    (pure and approximate differential privacy among them, a few hundred times). Other products are bounded on a grid of
    privacy losses by dp-accounting, extra ``accounting``.

    Parameters
    ----------
    *factors : TradeOff
        One or more.
    interval : float, optional
        Width of the grid of privacy losses, where one is needed; by default 1/65536 of the range of the losses of the product.

    Returns
    -------
    TradeOff
        Exact, with ``error`` 0; or with bounds ``lower`` and ``upper`` on both sides and their largest distance, ``error``.
        Values are those of the lower bound, so that a guarantee read from them holds. The error falls with `interval`,
        of which it is a small multiple for every factor.

    Raises
    ------
    ImportError
        If dp-accounting is needed and not installed.
    TypeError, ValueError
        If a factor is not a trade-off function, there is none, or the interval is not positive.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp, gaussian_dp
    >>> f = tensor_product(*[approximate_dp(0.1)] * 20)  # twenty releases at epsilon = 0.1: exact
    >>> print(f"{f(0.05):.6f} {f.error} {approximate_dp(2.0)(0.05):.6f}")
    0.886143 0.0 0.630547
    >>> mixed = tensor_product(gaussian_dp(0.5), approximate_dp(0.5), interval=1e-3)
    >>> print(f"{mixed.lower(0.05):.3f} {mixed.upper(0.05):.3f} {mixed.error < 1e-3}")
    0.832 0.832 True
    """
    if not factors:
        raise ValueError("give at least one trade-off function")
    for i, f in enumerate(factors):
        checked(f, f"factor {i}")
    h = None if interval is None else _validate.positive_real(interval, "interval")
    if len(factors) == 1:
        return factors[0]
    if any(f.error > 0.0 for f in factors):
        low, high = ([f.lower for f in factors], [f.upper for f in factors])
        return Bracketed(tensor_product(*low, interval=h).lower, tensor_product(*high, interval=h).upper)
    counts = _gathered(factors)
    exact = _exactly(counts)
    if exact is not None:
        return exact
    span = sum(count * (high - low) for f, count in counts for low, high in (loss_range(f),))
    return Bracketed(*bounds(counts, h if h is not None else max(_FINEST, span / _GRID)))


def semi_first(factors: Sequence[TradeOff], a: int, interval: float | None = None) -> TradeOff:
    """Compose mechanisms of which each is taken to distance a first: ``f1^{o a} (x) ... (x) fk^{o a}``.

    Paper 003, Proposition 21 ("Semi-DP first"): the guarantee, for tables that agree on the invariant and differ in up to a
    records, of releases that are f_i-DP for tables that differ in one. It is never below `composition_first`.

    Parameters
    ----------
    factors : sequence of TradeOff
        What each release guarantees for tables at distance 1.
    a : int
        Semi-adjacent parameter of the invariant.
    interval : float, optional
        See `tensor_product`.

    Returns
    -------
    TradeOff

    Raises
    ------
    ImportError, TypeError, ValueError
        As `tensor_product`, or if a is not a positive integer.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp
    >>> f = [approximate_dp(0.5), approximate_dp(0.5)]
    >>> print(f"{semi_first(f, 2)(0.2):.4f} {composition_first(f, 2)(0.2):.4f}")
    0.3481 0.3102
    """
    steps = _validate.positive_integer(a, "a")
    return tensor_product(*[checked(f, f"factor {i}").group(steps) for i, f in enumerate(factors)], interval=interval)


def composition_first(factors: Sequence[TradeOff], a: int, interval: float | None = None) -> TradeOff:
    """Compose mechanisms and take the result to distance a: ``(f1 (x) ... (x) fk)^{o a}``. See `semi_first`."""
    return tensor_product(*factors, interval=interval).group(_validate.positive_integer(a, "a"))


def _gathered(factors: Sequence[TradeOff]) -> list[tuple[TradeOff, int]]:
    """Distinct factors and how often each occurs; all Gaussian ones as a single ``G_mu``, ``mu**2 = sum mu_i**2``, at the end."""
    mus = [f.mu for f in factors if isinstance(f, GaussianTradeOff)]
    others = Counter(f for f in factors if not isinstance(f, GaussianTradeOff))
    counts = list(others.items())
    return [*counts, (GaussianTradeOff(math.hypot(*mus)), 1)] if mus else counts


def _exactly(counts: Sequence[tuple[TradeOff, int]]) -> TradeOff | None:
    """The exact product of one Gaussian, or of piecewise linear functions with few outcomes; None for all others."""
    if len(counts) == 1 and isinstance(counts[0][0], GaussianTradeOff):
        return counts[0][0]
    if not all(f._piecewise_linear for f, _ in counts):
        return None
    whole: DiscretePair | None = None
    for f, count in counts:
        pair = as_pair(f)
        for _ in range(count):
            if whole is None:
                whole = pair
                continue
            if len(whole.p) * len(pair.p) > _EXACT_PAIRS:
                return None
            whole = product(whole, pair)
            if len(whole.p) > _EXACT_OUTCOMES:
                return None
    return whole


_ALLOWANCE = 1e-12
"""Added to and taken from every delta: convolution by FFT is exact to about 1e-15 (and cuts tails of 1e-15)."""
_LINES = 4096
"""Lines a side that the result is made of; leaving some out is of second order, and safe."""


def accounting() -> Any:
    """Give the module of dp-accounting, an optional dependency.

    Raises
    ------
    ImportError
        If it is not installed; the message names the extra.
    """
    try:
        from dp_accounting.pld import privacy_loss_distribution  # type: ignore[import-untyped]  # it has no types
    except ImportError:
        raise ImportError(
            "the tensor product of these trade-off functions is computed by dp-accounting, which is not installed: "
            "pip install 'bayesdp[accounting]'"
        ) from None
    return privacy_loss_distribution


def bounds(factors: Sequence[tuple[TradeOff, int]], h: float) -> tuple[DiscretePair, DiscretePair]:
    """Bound the tensor product from below and from above.

    Parameters
    ----------
    factors : sequence of (TradeOff, int)
        Functions and how often each is there.
    h : float
        Width of the grid of losses.
    """
    turned = factors if all(f.symmetric for f, _ in factors) else [(f.inverse(), n) for f, n in factors]
    found = []
    for pessimistic in (True, False):
        top, deltas = _profile(factors, h, pessimistic)
        back, others = (top, deltas) if turned is factors else _profile(turned, h, pessimistic)
        falling = np.exp(-h * back[::-1][:-1])  # slope 1 is in the other half
        gamma = np.concatenate([falling, np.exp(h * top)])
        delta = np.concatenate([1.0 - falling * (1.0 - others[::-1][:-1]), deltas])
        curve = from_lines(gamma, delta)
        found.append(curve if pessimistic else _thinned(curve))
    return found[0], found[1]


def _profile(factors: Sequence[tuple[TradeOff, int]], h: float, pessimistic: bool) -> tuple[Floats, Floats]:
    """Delta of the product on the grid points of epsilon >= 0: too large if pessimistic, else too small."""
    module = accounting()
    total: Any = None
    largest = 0
    for f, count in factors:
        first, found, infinite = rounded(f, h, pessimistic)
        masses = {first + int(k): float(found[k]) for k in np.flatnonzero(found)}
        distribution = module.PrivacyLossDistribution.create_from_rounded_probability(masses, infinite, h, pessimistic)
        distribution = distribution.self_compose(count) if count > 1 else distribution
        total = distribution if total is None else total.compose(distribution)
        largest += count * max(masses, default=0)
    largest = min(max(largest, 1), math.floor(LARGEST / h))
    step = max(largest // _LINES, 1) if pessimistic else 1
    j = np.arange(0, largest + step, step)
    delta = np.asarray(total.get_delta_for_epsilon((j * h).tolist()))
    return j.astype(np.float64), np.clip(delta + (_ALLOWANCE if pessimistic else -_ALLOWANCE), 0.0, 1.0)


def _thinned(curve: DiscretePair) -> DiscretePair:
    """A chord for every few segments: above the curve, for it is convex."""
    size = len(curve.p)
    if size <= 2 * _LINES:
        return curve
    first = np.arange(0, size, -(-size // (2 * _LINES)))
    p, q = np.add.reduceat(np.array(curve.p), first), np.add.reduceat(np.array(curve.q), first)
    return DiscretePair(curve.start, tuple(p.tolist()), tuple(q.tolist()))


_OUTCOMES = 4096
"""Discrete pairs are multiplied out up to this many outcomes of different likelihood ratio,"""
_PAIRS = 1_000_000
"""and as long as one multiplication has no more pairs of outcomes than this."""
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
