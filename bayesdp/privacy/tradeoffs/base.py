"""What every trade-off function has, and those made from others: inverse, for groups, products.

Everything rests on one private method, ``_errors(a, s)``, which takes a type I error *and* its complement
``s = 1 - a`` and returns the type II error and the power. A number near 1 cannot hold a small tail, the pair
can: so tails of 1e-300 pass through compositions without loss.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from bayesdp import _validate
from bayesdp._arrays import Floats
from bayesdp.privacy.canonical import CanonicalNoise, RecursiveNoise, levels, plain

_LOG_SMALL = -667.0
"""Logarithm of 1e-290: below it a curve is continued as a straight line through its end."""
_FAR = 38.0
"""Normal quantile below which probabilities underflow."""
_HALVINGS = 64
_SAME = 1e-12
"""Largest difference at a knot between a function and its inverse if it passes as symmetric."""
_SAME_RATIO = 1e-13
"""Outcomes whose log likelihood ratios differ by no more, relative to their size, are one outcome."""
_EXACT_OUTCOMES = 20_000
"""Products of discrete laws are exact up to this many outcomes of different likelihood ratio."""
_EXACT_PAIRS = 2_000_000
"""Largest number of pairs of outcomes in one multiplication of an exact product."""


class TradeOff(ABC):
    """A trade-off function f: the smallest type II error of any test whose type I error is alpha.

    This is the convention of Dong, Roth and Su (2022): f is convex, falls, and ``f(alpha) <= 1 - alpha``.
    Paper 003 and Awan and Vadhan (2023) write the same curve as a rising function of ``1 - alpha``; that is
    `increasing`. A mechanism is f-DP when f bounds the trade-off of its outputs on every two neighbours.

    Examples
    --------
    >>> from bayesdp.privacy.tradeoffs import gaussian_dp
    >>> f = gaussian_dp(1.0)
    >>> print(f"{f(0.05):.6f} {f.power(0.05):.6f} {f.increasing(0.95):.6f}")
    0.740489 0.259511 0.740489
    """

    @abstractmethod
    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        """Type II error and power at type I error a, where s = 1 - a; each accurate where it is small."""

    @abstractmethod
    def _slope(self, a: Floats, s: Floats) -> Floats:
        """Give ``-f'(a)``, one of the two one-sided slopes at a kink."""

    @abstractmethod
    def inverse(self) -> TradeOff:
        """Give ``f^-1(beta) = inf {alpha : f(alpha) <= beta}``, the trade-off with the hypotheses exchanged."""

    def _log_step(self, log_s: Floats) -> tuple[Floats, Floats]:
        """``log f(1 - s)`` and ``log(-f'(1 - s))`` from ``log s``, finite where s itself underflows."""
        # Below 1e-290 the curve is taken for straight: an upper bound where it is not, f being convex.
        s = np.exp(np.maximum(log_s, _LOG_SMALL))
        with np.errstate(divide="ignore"):
            log_t, log_slope = np.log(self._errors(1.0 - s, s)[0]), np.log(self._slope(1.0 - s, s))
        end, end_slope = self._linear_end() or (-np.inf, 0.0)
        straight = log_s <= end
        log_t = np.where(straight, log_s + end_slope, log_t + np.minimum(log_s - _LOG_SMALL, 0.0))
        return log_t, np.where(straight, end_slope, log_slope)

    def _linear_end(self) -> tuple[float, float] | None:
        """``(log s, log m)`` if ``f(1 - s') = m s'`` for all s' up to s; None if not, or not known."""
        return self._pair()._linear_end() if self._piecewise_linear else None

    def _kinks(self) -> Floats:
        """Type I errors at which the slope may jump."""
        return self._pair()._kinks() if self._piecewise_linear else np.empty(0)

    @property
    def _piecewise_linear(self) -> bool:
        """Whether f is straight between neighbouring kinks."""
        return False

    def _pair(self) -> DiscretePair:
        """The two discrete laws that a piecewise linear function is the trade-off of."""
        a = np.unique(np.concatenate([[0.0, 1.0], self._kinks()]))
        power = self._errors(a, 1.0 - a)[1]
        return ordered_pair(float(power[0]), np.diff(a), np.maximum(np.diff(power), 0.0))

    def _with(self, others: Sequence[TradeOff]) -> TradeOff | None:
        """The product with others of the same kind, where it is one of that kind as well."""
        return None

    def _at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        """Type I error and power of the tests that reject what has a privacy loss above each of `losses`."""
        low, high = np.full(losses.shape, -_FAR), np.full(losses.shape, _FAR)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            steep = self._slope(ndtr(middle), ndtr(-middle)) > np.exp(losses)  # the slope falls as alpha grows
            low, high = np.where(steep, middle, low), np.where(steep, high, middle)
        return ndtr(low), self._errors(ndtr(low), ndtr(-low))[1]

    @property
    @abstractmethod
    def symmetric(self) -> bool:
        """Whether f is its own inverse."""

    def __call__(self, alpha: npt.ArrayLike) -> Any:
        """Type II error at type I error alpha, between 0 and 1, a float or an array."""
        a = levels(alpha, "alpha")
        return plain(self._errors(a, 1.0 - a)[0])

    def power(self, alpha: npt.ArrayLike) -> Any:
        """Largest power at type I error alpha, ``1 - f(alpha)``, to full relative accuracy for small alpha."""
        a = levels(alpha, "alpha")
        return plain(self._errors(a, 1.0 - a)[1])

    def increasing(self, level: npt.ArrayLike) -> Any:
        """Give ``f(1 - level)``, to full relative accuracy for small levels: the convention of paper 003.

        In it group privacy is ``f o f o ...``, and canonical noise has ``F(x - 1) = f(F(x))``. `level` is one minus the type I error.
        """
        s = levels(level, "level")
        return plain(self._errors(1.0 - s, s)[0])

    def group(self, k: int) -> TradeOff:
        """Give ``1 - (1 - f)^{o k}``, what f-DP promises to groups of k (Dong, Roth and Su, 2022, Theorem 2.14).

        `k` is the size of the group, or the number of steps between two tables, 1 or more.
        """
        steps = _validate.positive_integer(k, "k")
        return self if steps == 1 else Grouped(self, steps)

    def canonical_noise(self) -> CanonicalNoise:
        """Give a noise law with ``T(F, F(. - 1)) = f``: closed form where known, otherwise Lemma 36 of paper 003.

        It is for a statistic of sensitivity 1; multiply the noise by the sensitivity otherwise. ValueError if f is not symmetric, or
        is (nearly) ``1 - alpha``, which no noise attains.
        """
        return RecursiveNoise(self)


class SymmetricTradeOff(TradeOff):
    """A trade-off function that is its own inverse, by what it is."""

    symmetric = True

    def inverse(self) -> TradeOff:
        """Give the function itself, which is symmetric."""
        return self


@dataclass(frozen=True)
class Grouped(TradeOff):
    """Group privacy, ``1 - (1 - f)^{o k}``: k steps, f (`base`) for a single one."""

    base: TradeOff
    k: int

    @property
    def symmetric(self) -> bool:
        """Exactly if the base is; otherwise it is not claimed."""
        return self.base.symmetric

    def inverse(self) -> TradeOff:
        """Give the inverse, the group function of the inverse."""
        return self if self.symmetric else Grouped(self.base.inverse(), self.k)

    def group(self, k: int) -> TradeOff:
        """Give the function of groups of groups: the numbers of steps multiply."""
        return Grouped(self.base, self.k * _validate.positive_integer(k, "k"))

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        for _ in range(self.k):
            s, a = self.base._errors(a, s)  # the power of one step is the type I error of the next
        return s, a

    def _slope(self, a: Floats, s: Floats) -> Floats:
        log_slope = np.zeros(np.shape(a))  # the factors may overflow and underflow where their product does not
        with np.errstate(divide="ignore", over="ignore"):
            for _ in range(self.k):
                step = np.log(self.base._slope(a, s))
                # 0 times infinity: past the end of the support nothing is left
                log_slope = np.where(np.isneginf(step) | np.isneginf(log_slope), -np.inf, log_slope + step)
                s, a = self.base._errors(a, s)
            return np.exp(log_slope)

    def _linear_end(self) -> tuple[float, float] | None:
        end = self.base._linear_end()
        return None if end is None else (end[0], self.k * end[1])  # the slope is at most 1: no step leaves the end

    def _kinks(self) -> Floats:
        kinks = self.base._kinks()
        back = self.base.inverse()
        found = [kinks]
        for _ in range(self.k - 1):
            # The type I errors whose power is a kink: f(a) = 1 - w, so a = f^-1(1 - w).
            inside = found[-1][(found[-1] > self.base.power(0.0)) & (found[-1] < 1.0)]
            found.append(back._errors(1.0 - inside, inside)[0])
        return np.unique(np.concatenate(found))

    @property
    def _piecewise_linear(self) -> bool:
        return self.base._piecewise_linear


@dataclass(frozen=True, repr=False)
class DiscretePair(TradeOff):
    """Trade-off function of two discrete laws; see `bayesdp.privacy.tradeoffs.tradeoff`.

    Outcomes that only q has raise the power at once, by their mass `start`. The others are rejected in falling order of
    q / p: each is a segment that adds p to the type I error and q to the power (Neyman and Pearson).
    """

    start: float
    p: tuple[float, ...]
    q: tuple[float, ...]

    @cached_property
    def _knots(self) -> tuple[Floats, Floats, Floats, Floats]:
        """At the ends of the segments: type I errors and their complements, powers and type II errors."""
        p, q = np.array(self.p), np.array(self.q)
        below = [np.concatenate([[first], first + np.cumsum(mass)]) for first, mass in ((0.0, p), (self.start, q))]
        above = [np.concatenate([np.cumsum(mass[::-1])[::-1], [0.0]]) for mass in (p, q)]
        return below[0], above[0], below[1], above[1]

    def __repr__(self) -> str:
        return f"DiscretePair({len(self.p)} segments, f(0) = {1.0 - self.start:g})"

    def _pair(self) -> DiscretePair:
        return self

    def _masses(self) -> tuple[Floats, Floats]:
        """The masses of outcomes with a finite loss ``log(q / p)``, falling."""
        p, q = np.array(self.p), np.array(self.q)
        return p[q > 0.0], q[q > 0.0]

    @property
    def symmetric(self) -> bool:
        """Whether f is its own inverse, up to rounding of the masses (1e-12)."""
        other = self.inverse()
        # Both are piecewise linear, so they are equal if they are equal at the knots of both.
        a = np.clip(np.concatenate([self._knots[0], other._knots[0]]), 0.0, 1.0)
        return bool(np.max(np.abs(self._errors(a, 1.0 - a)[0] - other._errors(a, 1.0 - a)[0])) <= _SAME)

    def inverse(self) -> DiscretePair:
        """Give the trade-off of the same two laws with the hypotheses exchanged."""
        turned = [(q, p) for p, q in zip(reversed(self.p), reversed(self.q), strict=True)]
        both = [(q, p) for q, p in turned if q > 0.0]
        if self.start > 0.0:
            both.append((self.start, 0.0))
        first = math.fsum(p for q, p in turned if q == 0.0)
        return DiscretePair(first, tuple(new for new, _ in both), tuple(new for _, new in both))

    def _linear_end(self) -> tuple[float, float]:
        p, q = self.p[-1], self.q[-1]
        return math.log(p), math.log(q) - math.log(p) if q > 0.0 else -math.inf

    def _kinks(self) -> Floats:
        return np.clip(self._knots[0][1:-1], 0.0, 1.0)

    _piecewise_linear = True

    def _segment(self, a: Floats, s: Floats) -> npt.NDArray[np.intp]:
        low, high = self._knots[0], self._knots[1]
        by_a = np.searchsorted(low, a, side="right") - 1
        by_s = high.size - 1 - np.searchsorted(high[::-1], s, side="left")
        return np.clip(np.where(a <= 0.5, by_a, by_s), 0, len(self.p) - 1)

    def _errors(self, a: Floats, s: Floats) -> tuple[Floats, Floats]:
        i = self._segment(a, s)
        a_low, s_high, w_low, t_high = self._knots
        mass, gain = np.array(self.p)[i], np.array(self.q)[i]
        # How far along the segment: measured from the end whose tail is small, for steep segments magnify errors.
        done = np.clip((a - a_low[i]) / mass, 0.0, 1.0)
        rest = np.clip((s - s_high[i + 1]) / mass, 0.0, 1.0)
        by_a = a <= 0.5
        power = w_low[i] + np.where(by_a, done, 1.0 - rest) * gain
        type_two = t_high[i + 1] + np.where(by_a, 1.0 - done, rest) * gain
        # Sums of masses may exceed 1 by a rounding.
        return np.minimum(type_two, 1.0), np.minimum(power, 1.0)

    def _slope(self, a: Floats, s: Floats) -> Floats:
        i = self._segment(a, s)
        with np.errstate(over="ignore"):
            return np.asarray(np.array(self.q)[i] / np.array(self.p)[i], dtype=np.float64)

    def _at_losses(self, losses: Floats) -> tuple[Floats, Floats]:
        with np.errstate(over="ignore"):
            ratio = np.array(self.q) / np.array(self.p)
        n = np.searchsorted(-ratio, -np.exp(losses), side="left")  # outcomes with a ratio above
        return self._knots[0][n], self._knots[2][n]


def ordered_pair(start: float, p: Floats, q: Floats) -> DiscretePair:
    """Put outcomes into falling order of q / p."""
    with np.errstate(over="ignore"):
        order = np.argsort(-(q / p), kind="stable")
    return DiscretePair(min(max(start, 0.0), 1.0), tuple(p[order].tolist()), tuple(q[order].tolist()))


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


def checked(f: object, argument: str) -> TradeOff:
    """Accept a trade-off function."""
    if not isinstance(f, TradeOff):
        raise TypeError(f"{argument} must be a trade-off function such as gaussian_dp(1.0), got {type(f).__name__}")
    return f


def tensor_product(*factors: TradeOff) -> TradeOff:
    """Give the composition of mechanisms that are run on the same table, each with noise of its own.

    The tensor product of ``T(P1, Q1)`` and ``T(P2, Q2)`` is ``T(P1 x P2, Q1 x Q2)`` (Dong, Roth and Su, 2022,
    Definition 3.1). Gaussians multiply exactly, ``G_mu (x) G_nu = G_sqrt(mu^2 + nu^2)``, and so do laws with few outcomes
    (pure and approximate differential privacy among them, a few hundred times).

    Parameters
    ----------
    *factors : TradeOff
        One or more.

    Returns
    -------
    TradeOff

    Raises
    ------
    NotImplementedError
        If the product is not one of these. Its epsilon at a delta is what `bayesdp.compose` works out for releases.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp
    >>> f = tensor_product(*[approximate_dp(0.1)] * 20)  # twenty releases at epsilon = 0.1: exact
    >>> print(f"{f(0.05):.6f} {approximate_dp(2.0)(0.05):.6f}")
    0.886143 0.630547
    """
    if not factors:
        raise ValueError("give at least one trade-off function")
    for i, f in enumerate(factors):
        checked(f, f"factor {i}")
    if len(factors) == 1:
        return factors[0]
    pieces = multiplied(list(Counter(factors).elements()), _EXACT_OUTCOMES, _EXACT_PAIRS)
    if len(pieces) > 1:
        raise NotImplementedError(
            "products are known of mu-GDP with mu-GDP, and of discrete laws (epsilon and delta among them) with up to "
            f"{_EXACT_OUTCOMES} outcomes, but not of {', '.join(map(repr, pieces))}; the epsilon of such releases at a delta is what "
            "bayesdp.compose works out"
        )
    return pieces[0]


def semi_first(factors: Sequence[TradeOff], a: int) -> TradeOff:
    """Compose mechanisms of which each is taken to distance a first: ``f1^{o a} (x) ... (x) fk^{o a}``.

    Paper 003, Proposition 21 ("Semi-DP first"): the guarantee, for tables that agree on the invariant and differ in up to a
    records, of releases that are f_i-DP for tables that differ in one. It is never below `composition_first`.

    Parameters
    ----------
    factors : sequence of TradeOff
        What each release guarantees for tables at distance 1.
    a : int
        Semi-adjacent parameter of the invariant.

    Examples
    --------
    >>> from bayesdp.privacy import approximate_dp
    >>> f = [approximate_dp(0.5), approximate_dp(0.5)]
    >>> print(f"{semi_first(f, 2)(0.2):.4f} {composition_first(f, 2)(0.2):.4f}")
    0.3481 0.3102
    """
    steps = _validate.positive_integer(a, "a")
    return tensor_product(*[checked(f, f"factor {i}").group(steps) for i, f in enumerate(factors)])


def composition_first(factors: Sequence[TradeOff], a: int) -> TradeOff:
    """Compose mechanisms and take the result to distance a: ``(f1 (x) ... (x) fk)^{o a}``. See `semi_first`."""
    return tensor_product(*factors).group(_validate.positive_integer(a, "a"))


def multiplied(factors: Sequence[TradeOff], outcomes: int, pairs: int) -> list[TradeOff]:
    """Multiply what can be multiplied exactly: all normal factors, and discrete ones as far as their outcomes are few enough."""
    normal = [f for f in factors if f._with(()) is not None]
    rest = [f for f in factors if f._with(()) is None]
    found: list[TradeOff] = [f for f in rest if not f._piecewise_linear]
    whole: DiscretePair | None = None
    for pair in (f._pair() for f in rest if f._piecewise_linear):
        if whole is not None and len(whole.p) * len(pair.p) <= pairs:
            both = product(whole, pair)
            if len(both.p) <= outcomes:
                whole = both
                continue
        found += [] if whole is None else [whole]
        whole = pair
    found += [] if whole is None else [whole]
    together = normal[0]._with(normal[1:]) if normal else None
    return found if together is None else [*found, together]
