"""Composition of trade-off functions: their tensor product, before and after an invariant is taken into account.

Products without a closed form are taken on a grid of privacy losses, by dp-accounting, rounded to the safe side and to the other
(`bayesdp.privacy.tradeoffs.loss_grid`). What they amount to at one delta needs no dp-accounting: `convolution`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayesdp import _validate
from bayesdp.privacy.tradeoffs.base import TradeOff
from bayesdp.privacy.tradeoffs.derived import Bracketed
from bayesdp.privacy.tradeoffs.laws import DiscretePair, GaussianTradeOff
from bayesdp.privacy.tradeoffs.levels import Floats
from bayesdp.privacy.tradeoffs.loss_grid import LARGEST, loss_range, rounded
from bayesdp.privacy.tradeoffs.profile import as_pair, checked, from_lines, product

__all__ = ["bounds", "composition_first", "semi_first", "tensor_product"]

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
