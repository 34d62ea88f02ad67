"""Composition of trade-off functions: their tensor product, before and after an invariant is taken into account."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from bayesdp import _validate
from bayesdp.privacy._loss_grid import bounds, loss_range
from bayesdp.privacy._piecewise import as_pair, product
from bayesdp.privacy._tradeoff import TradeOff
from bayesdp.privacy._tradeoff_derived import Bracketed
from bayesdp.privacy._tradeoff_laws import DiscretePair, GaussianDP
from bayesdp.privacy.profile import checked

__all__ = ["composition_first", "semi_first", "tensor_product"]

_EXACT_OUTCOMES = 20_000
"""Products of discrete laws are exact up to this many outcomes of different likelihood ratio."""
_EXACT_PAIRS = 2_000_000
"""And with at most so many pairs of outcomes in a step."""
_GRID = 2**16
_FINEST = 1e-6


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
    """Gaussians as one, equal factors counted, discrete laws before others."""
    mus = [f.mu for f in factors if isinstance(f, GaussianDP)]
    others = Counter(f for f in factors if not isinstance(f, GaussianDP))
    counts = list(others.items())
    return [*counts, (GaussianDP(math.hypot(*mus)), 1)] if mus else counts


def _exactly(counts: Sequence[tuple[TradeOff, int]]) -> TradeOff | None:
    """Multiply out what can be; None if that is too much, or not discrete."""
    if len(counts) == 1 and isinstance(counts[0][0], GaussianDP):
        return counts[0][0]
    if not all(f._piecewise_linear for f, _ in counts):
        return None
    whole: DiscretePair | None = None
    for f, count in counts:
        own = as_pair(f)
        for _ in range(count):
            if whole is None:
                whole = own
                continue
            if len(whole.p) * len(own.p) > _EXACT_PAIRS:
                return None
            whole = product(whole, own)
            if len(whole.p) > _EXACT_OUTCOMES:
                return None
    return whole
